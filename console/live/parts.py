"""One live part over a WebSocket: rendered each second, sent when it changed."""

import asyncio
import logging

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error as DatabaseError
from django.utils import timezone

from console import parts

log = logging.getLogger(__name__)
INTERVAL_SECONDS = 1.0
WHOLE_EVERY = 5  # ticks: a page may have put off a part that it was just using
# A socket outlives no session by more than this: the page reconnects and signs in anew.
LIFETIME_SECONDS = 3600
CLOSE_UNKNOWN = 4404
CLOSE_LATER = 1013  # try again later: htmx reconnects with back-off


class PartConsumer(AsyncWebsocketConsumer):
    channel_layer_alias = None  # it is sent to by nobody, and works while Valkey is away

    async def connect(self) -> None:
        where = self.scope["url_route"]["kwargs"]
        self.name, self.about = where["name"], where.get("about", "")
        self.task = None
        await self.accept()
        if self.name not in parts.PARTS:
            await self.close(CLOSE_UNKNOWN)
            return
        self.task = asyncio.create_task(self._follow())

    async def receive(self, text_data=None, bytes_data=None) -> None:
        """A part is only read; what a page sends is not listened to."""

    async def disconnect(self, code: int) -> None:
        if self.task:
            self.task.cancel()

    async def _follow(self) -> None:
        sent = None
        for tick in range(int(LIFETIME_SECONDS / INTERVAL_SECONDS)):
            try:
                at, html = await _render(self.name, self.about)
            except DatabaseError as failure:
                log.warning("part %s cannot be read: %s", self.name, failure)
                break
            whole = html != sent or tick % WHOLE_EVERY == 0
            mark = f'<span id="as-of" hx-swap-oob="true">data as of {at:%H:%M:%S} UTC</span>'
            await self.send(mark + html if whole else mark)
            sent = html
            await asyncio.sleep(INTERVAL_SECONDS)
        await self.close(CLOSE_LATER)


@database_sync_to_async
def _render(name: str, about: str):
    at = timezone.now()
    return at, parts.html(name, at, about)
