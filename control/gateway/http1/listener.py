"""The listening socket of one gateway process, and the connections that came through it."""

import asyncio

from control.gateway.http1.app import App
from control.gateway.http1.server import Connection
from control.gateway.limits import Limits


class Listener:
    """The listening socket and its connections."""

    def __init__(self, app: App, limits: Limits) -> None:
        self.connections: set[Connection] = set()
        self._app = app
        self._limits = limits
        self._listening: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Returns the port, which differs if 0 was asked for."""
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(
            lambda: Connection(self._app, self._limits, self.connections),
            host,
            port,
            backlog=4096,
            reuse_port=True,
        )
        return self._listening.sockets[0].getsockname()[1]

    def sweep(self, now: float) -> None:
        for connection in tuple(self.connections):
            connection.sweep(now)

    def stop_listening(self) -> None:
        """New connections go elsewhere; those with a call answer it and close."""
        if self._listening:
            self._listening.close()
        for connection in tuple(self.connections):
            connection.close_when_idle()

    def close(self) -> None:
        for connection in tuple(self.connections):
            connection.transport.abort()
