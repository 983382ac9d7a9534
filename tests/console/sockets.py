"""A page's end of a WebSocket, spoken to the console's own ASGI application."""

import json
from contextlib import asynccontextmanager

from asgiref.testing import ApplicationCommunicator

from console.asgi import application

HANG_SECONDS = 60


class Socket:
    """Channels' own communicator would pull in another web server."""

    def __init__(self, address: str, *, cookie: str = "", origin: str = "http://localhost"):
        headers = [(b"host", b"localhost"), (b"origin", origin.encode())]
        if cookie:
            headers.append((b"cookie", cookie.encode()))
        path, _, query = address.partition("?")
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
            "subprotocols": [],
        }
        self.app = ApplicationCommunicator(application, scope)

    async def connect(self) -> int | None:
        """None when it was accepted, else the code it was refused with."""
        await self.app.send_input({"type": "websocket.connect"})
        answer = await self.app.receive_output(HANG_SECONDS)
        return None if answer["type"] == "websocket.accept" else answer.get("code", 1000)

    async def hear(self) -> str:
        message = await self.app.receive_output(HANG_SECONDS)
        assert message["type"] == "websocket.send", message
        return message["text"]

    async def hear_json(self) -> dict:
        return json.loads(await self.hear())

    async def closed(self) -> int:
        message = await self.app.receive_output(HANG_SECONDS)
        assert message["type"] == "websocket.close", message
        return message["code"]

    async def say(self, **message) -> None:
        await self.app.send_input({"type": "websocket.receive", "text": json.dumps(message)})

    async def leave(self) -> None:
        await self.app.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.app.wait(HANG_SECONDS)


@asynccontextmanager
async def connected(address: str, cookie: str):
    socket = Socket(address, cookie=cookie)
    assert await socket.connect() is None
    try:
        yield socket
    finally:
        await socket.leave()
