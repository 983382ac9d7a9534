"""Samples go to whoever watches: the store, and the consoles' WebSockets."""

import asyncio
import logging
from collections.abc import Sequence
from itertools import count
from threading import Lock
from uuid import uuid4

from channels.exceptions import ChannelFull
from channels.layers import get_channel_layer
from redis.exceptions import RedisError

from control.telemetry.messages import Sample, to_dict
from control.telemetry.store import Store

GROUP = "live"
SEND_SECONDS_MAX = 2.0

log = logging.getLogger(__name__)


class Publisher:
    """Numbers what it sends, so that a watcher sees that it missed something."""

    def __init__(self, store: Store | None = None):
        self._store = store or Store()
        self._name = uuid4().hex[:12]  # whose numbers these are
        self._numbers = count(1)
        # One loop for all that it sends: with it stays the connection of the channel layer.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._one_at_a_time = Lock()
        self._kept: dict[str, Sample] = {}
        self._kept_lock = Lock()

    def share(self, samples: Sequence[Sample]) -> bool:
        """Store and send; False when Valkey is away. Measuring goes on then, unseen."""
        try:
            self._store.put(samples)
            self.publish(samples)
        except (RedisError, OSError, ChannelFull) as error:
            log.warning("%d samples were not shared: %s", len(samples), error)
            return False
        return True

    def later(self, samples: Sequence[Sample]) -> None:
        """Kept for the next `flush`, the last of each subject."""
        with self._kept_lock:
            self._kept.update({sample.subject: sample for sample in samples})

    def flush(self) -> bool:
        with self._kept_lock:
            kept, self._kept = list(self._kept.values()), {}
        return self.share(kept)

    def publish(self, samples: Sequence[Sample]) -> None:
        """Send to the group `live`: the publisher, its number of the message, and the samples."""
        if not samples:
            return
        with self._one_at_a_time:
            self._loop = self._loop or asyncio.new_event_loop()
            self._loop.run_until_complete(asyncio.wait_for(self._send(samples), SEND_SECONDS_MAX))

    def close(self) -> None:
        with self._one_at_a_time:
            if self._loop is not None:
                self._loop.close()  # the channel layer closes its connections with it
                self._loop = None
        self._store.close()

    async def _send(self, samples: Sequence[Sample]) -> None:
        message = {
            "type": "live.samples",
            "by": self._name,
            "seq": next(self._numbers),
            "samples": [to_dict(sample) for sample in samples],
        }
        await get_channel_layer().group_send(GROUP, message)
