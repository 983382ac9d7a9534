"""Samples go to whoever watches: the store, and the consoles' WebSockets."""

import logging
from collections.abc import Sequence
from itertools import count

from asgiref.sync import async_to_sync
from channels.exceptions import ChannelFull
from channels.layers import get_channel_layer
from redis.exceptions import RedisError

from control.telemetry.messages import Sample, to_dict
from control.telemetry.store import Store

GROUP = "live"

log = logging.getLogger(__name__)


class Publisher:
    """Numbers what it sends, so that a watcher sees that it missed something."""

    def __init__(self, store: Store | None = None):
        self._store = store or Store()
        self._numbers = count(1)

    def share(self, samples: Sequence[Sample]) -> bool:
        """Store and send; False when Valkey is away. Measuring goes on then, unseen."""
        try:
            self._store.put(samples)
            self.publish(samples)
        except (RedisError, OSError, ChannelFull) as error:
            log.warning("%d samples were not shared: %s", len(samples), error)
            return False
        return True

    def publish(self, samples: Sequence[Sample]) -> None:
        """Send to the group `live` as `{"type": "live.sample", "seq": n, "sample": {…}}`."""
        if samples:
            async_to_sync(self._send)(samples)

    async def _send(self, samples: Sequence[Sample]) -> None:
        layer = get_channel_layer()
        for sample in samples:
            message = {"type": "live.sample", "seq": next(self._numbers), "sample": to_dict(sample)}
            await layer.group_send(GROUP, message)
