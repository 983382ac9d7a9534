"""The playground's socket: one call at a time to the gateway over HTTP, like any tenant's."""

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass

import httpx
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import Error as DatabaseError
from django.utils import timezone

from console.live import answers
from console.live.answers import Answer, Ask
from control.metering import facts as metering
from control.metering.facts import PriceRow
from control.routes import facts as routes
from control.tenancy import actions

ASK_BYTES_MAX = 256 * 1024
TIMEOUT = httpx.Timeout(connect=5, read=300, write=30, pool=5)
ERROR_BYTES_MAX = 64 * 1024


@dataclass
class Gateway:
    """Where the playground calls, and with which key."""

    url: str
    key: str


class PlaygroundConsumer(AsyncWebsocketConsumer):
    channel_layer_alias = None  # it is sent to by nobody, and works while Valkey is away

    async def connect(self) -> None:
        self.call: asyncio.Task | None = None
        self.gateway: Gateway | None = None
        await self.accept()

    async def disconnect(self, code: int) -> None:
        if self.call:
            self.call.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if text_data is None or len(text_data) > ASK_BYTES_MAX:
            await self._say("error", message=f"Send less than {ASK_BYTES_MAX // 1024} KiB of text.")
            return
        running = self.call is not None and not self.call.done()
        match answers.read(text_data):
            case Ask() if running:
                await self._say("error", message="One call at a time: stop the running one first.")
            case Ask() as ask:
                self.call = asyncio.create_task(self._answer(ask))
            case answers.Stop():
                if running:
                    self.call.cancel()
            case answers.Unclear(what):
                await self._say("error", message=what)

    async def _answer(self, ask: Ask) -> None:
        """Whatever happens, the page hears how the call ended; a stop closes it upstream."""
        answer = Answer(started=time.monotonic())
        try:
            await self._stream(ask, answer)
        except asyncio.CancelledError:
            answer.finish_reason = "stopped"
            with contextlib.suppress(Exception):  # the page may be gone: then nobody listens
                await self._end(answer)
            raise
        except httpx.ConnectError:
            await self._say(
                "error", message="The gateway does not answer. Is it running? See: weir status"
            )
        except httpx.HTTPError as failure:
            await self._say("error", message=f"The gateway broke off: {type(failure).__name__}.")
        except DatabaseError:
            await self._say("error", message="The database does not answer: try again in a moment.")

    async def _stream(self, ask: Ask, answer: Answer) -> None:
        gateway = await self._door()
        headers = {"Authorization": f"Bearer {gateway.key}"}
        async with (
            httpx.AsyncClient(base_url=gateway.url, timeout=TIMEOUT, trust_env=False) as client,
            client.stream(
                "POST", "/v1/chat/completions", json=ask.body(), headers=headers
            ) as response,
        ):
            answer.request_id = response.headers.get("x-request-id", "")
            if response.status_code != httpx.codes.OK:
                await self._refused(response)
                return
            await self._say("start", request_id=answer.request_id)
            lines = answers.Lines()
            async for chunk in response.aiter_bytes():
                for data in lines.feed(chunk):
                    await self._event(answer, data)
        await self._end(answer)

    async def _event(self, answer: Answer, data: bytes) -> None:
        text = answer.take(data, at=time.monotonic())
        if text:
            await self._say("text", text=text)
        if answer.error:
            await self._say("error", message=answer.error)
            answer.error = ""

    async def _refused(self, response: httpx.Response) -> None:
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > ERROR_BYTES_MAX:
                break
        after = response.headers.get("retry-after", "")
        message = answers.refusal(response.status_code, body, after)
        await self._say("error", message=message, status=response.status_code)

    async def _end(self, answer: Answer) -> None:
        figures = answer.figures(at=time.monotonic())
        price = await _price(answer.model)
        await self._say("end", **figures, cost=answers.cost(figures, price))

    async def _door(self) -> Gateway:
        if self.gateway is None:
            secret = await _ensure_key(self.scope["user"].username)
            self.gateway = Gateway(settings.WEIR_GATEWAY_URL, secret)
        return self.gateway

    async def _say(self, kind: str, **fields) -> None:
        await self.send(json.dumps({"type": kind, **fields}))


@database_sync_to_async
def _ensure_key(by: str) -> str:
    return actions.ensure_playground_key(by=by, reason="playground", at=timezone.now()).secret


@database_sync_to_async
def _price(route: str) -> PriceRow | None:
    """Answers name the route that was asked; one to several models says no price beforehand."""
    targets = [target for found in routes.routes(name=route) for target in found.targets]
    models = {target.model for target in targets if target.weight}
    if len(models) != 1:
        return None
    [model] = models
    found = metering.prices(timezone.now())
    return next((price for price in found if price.model == model), None)
