"""The overview's charts over a WebSocket: the last minutes at once, then a point a second."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.utils import timezone
from redis.exceptions import RedisError

from console import charts
from console.charts import Reading
from console.live.heard import Heard
from control.telemetry.messages import Sample, from_dict
from control.telemetry.publish import GROUP
from control.telemetry.store import Store

log = logging.getLogger(__name__)
INTERVAL_SECONDS = 1.0
BOARD_EVERY = 60  # ticks: whatever was missed on the way is made good by then
FORGOTTEN_SECONDS = 60  # a subject that is silent for so long loses its line
SUBJECTS_MAX = 4096
LIFETIME_SECONDS = 3600  # then the page reconnects, and is asked anew whether it may
CLOSE_LATER = 1013


class ChartsConsumer(AsyncWebsocketConsumer):
    async def connect(self) -> None:
        self.task: asyncio.Task | None = None
        self.latest: dict[str, Reading] = {}
        self.labels: dict[str, list[str]] = {}
        self.seq = 0  # of what this page was sent; a gap makes it ask again
        self.board_is_due = True
        self.heard = Heard()
        await self.accept()
        try:
            await self.channel_layer.group_add(GROUP, self.channel_name)
        except (RedisError, OSError) as failure:
            log.warning("live charts cannot be followed: %s", failure)
            await self.close(CLOSE_LATER)
            return
        self.task = asyncio.create_task(self._follow())

    async def disconnect(self, code: int) -> None:
        if self.task:
            self.task.cancel()
        with contextlib.suppress(RedisError, OSError):  # it forgets us after a while by itself
            await self.channel_layer.group_discard(GROUP, self.channel_name)

    async def receive(self, text_data=None, bytes_data=None) -> None:
        """All that a page may ask is to be sent the whole board again."""
        self.board_is_due = True

    async def live_samples(self, event: dict) -> None:
        self.heard.note(event.get("by", ""), event["seq"])
        for sample in filter(None, map(from_dict, event["samples"])):
            self._take(sample.subject, reading(sample))

    def _take(self, name: str, told: Reading) -> None:
        """What was overtaken by a look at the store is passed over."""
        known = self.latest.get(name)
        if known is None and len(self.latest) >= SUBJECTS_MAX:
            return
        if known is None or told.at >= known.at:
            self.latest[name] = told

    async def _follow(self) -> None:
        for tick in range(int(LIFETIME_SECONDS / INTERVAL_SECONDS)):
            at = timezone.now().timestamp()
            self._forget(at)
            labels = charts.labels(self.latest)
            self.board_is_due |= self.heard.missed()
            if self.board_is_due or labels != self.labels or tick % BOARD_EVERY == 0:
                await self._board(at)
            else:
                values = charts.point(self.latest, at=at)
                await self._say({"type": "point", "at": int(at), "values": values})
            await asyncio.sleep(INTERVAL_SECONDS)
        await self.close(CLOSE_LATER)

    async def _board(self, at: float) -> None:
        """Without Valkey nothing is sent: the page then says that what it shows is stale."""
        try:
            history = await _history(at - charts.WINDOW_SECONDS)
        except (RedisError, OSError) as failure:
            log.warning("the last minutes cannot be read: %s", failure)
            return
        series = {
            name: [reading(sample) for sample in samples] for name, samples in history.items()
        }
        for name, readings in series.items():
            if readings:
                self._take(name, readings[-1])
        self._forget(at)
        known = {name: series.get(name, []) for name in self.latest}
        self.labels = charts.labels(self.latest)
        self.board_is_due = False
        await self._say({"type": "board", "charts": charts.board(known, self.latest, at=at)})

    def _forget(self, at: float) -> None:
        silent = [name for name, last in self.latest.items() if at - last.at > FORGOTTEN_SECONDS]
        for name in silent:
            del self.latest[name]

    async def _say(self, message: dict) -> None:
        self.seq += 1
        await self.send(json.dumps(message | {"seq": self.seq}))


def reading(sample: Sample) -> Reading:
    kind = sample.subject.split(":", 1)[0]
    label = getattr(sample, "label", "") or sample.subject
    values = {
        name: value
        for name, value in asdict(sample).items()
        if isinstance(value, int | float) and name != "at"
    }
    return Reading(kind, sample.subject, label, sample.at, values)


@sync_to_async(thread_sensitive=False)
def _history(since: float) -> Mapping[str, Sequence[Sample]]:
    store = Store()
    try:
        return store.series(store.subjects()[:SUBJECTS_MAX], since)
    finally:
        store.close()
