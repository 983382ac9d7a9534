"""One live part over a WebSocket: rendered each second, sent when it changed."""

import asyncio
import logging
from datetime import datetime

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error as DatabaseError
from django.utils import timezone

from console import parts
from console.access import CLOSE_REFUSED

log = logging.getLogger(__name__)
WHOLE_EVERY = 5  # ticks: a page may have put off a part that it was just using
# A socket outlives no session by more than this: the page reconnects and signs in anew.
LIFETIME_SECONDS = 3600
CLOSE_UNKNOWN = 4404
CLOSE_LATER = 1013  # try again later: htmx reconnects with back-off


class PartConsumer(AsyncWebsocketConsumer):
    channel_layer_alias = None  # it is sent to by nobody, and works while Valkey is away
    interval_seconds = 1.0
    known = parts.PARTS

    async def connect(self) -> None:
        where = self.scope["url_route"]["kwargs"]
        self.name, self.about = where["name"], where.get("about", "")
        self.task = None
        await self.accept()
        if self.name not in self.known:
            await self.close(CLOSE_UNKNOWN)
            return
        self.task = asyncio.create_task(self._follow())

    async def receive(self, text_data=None, bytes_data=None) -> None:
        """A part is only read; what a page sends is not listened to."""

    async def disconnect(self, code: int) -> None:
        if self.task:
            self.task.cancel()

    def html(self, at: datetime) -> str | None:
        """As it is now; None: it is no longer for who looks at it. In a thread."""
        return parts.html(self.name, at, self.about)

    async def _follow(self) -> None:
        sent = None
        for tick in range(int(LIFETIME_SECONDS / self.interval_seconds)):
            at = timezone.now()
            try:
                html = await database_sync_to_async(self.html)(at)
            except DatabaseError as failure:
                log.warning("part %s cannot be read: %s", self.name, failure)
                break
            if html is None:
                await self.close(CLOSE_REFUSED)
                return
            whole = html != sent or tick % WHOLE_EVERY == 0
            mark = f'<span id="as-of" hx-swap-oob="true">data as of {at:%H:%M:%S} UTC</span>'
            await self.send(mark + html if whole else mark)
            sent = html
            await asyncio.sleep(self.interval_seconds)
        await self.close(CLOSE_LATER)
