"""The listening socket of one gateway process, and the connections that came through it."""

import asyncio
import select
import socket

from control.gateway.http1.app import App
from control.gateway.http1.connections import Connections
from control.gateway.http1.server import Connection
from control.gateway.http1.slices import in_slices
from control.gateway.limits import Limits

_SWEPT_AT_ONCE = 200
_TURNS_MAX = 1000  # of the loop, for those that wait to be accepted


class Listener:
    """The listening socket and its connections."""

    def __init__(self, app: App, limits: Limits) -> None:
        self.connections = Connections(limits)
        self._app = app
        self._limits = limits
        self._listening: asyncio.Server | None = None
        self._socket: socket.socket | None = None

    async def listen(self, at: socket.socket) -> int:
        """Returns the port."""
        loop = asyncio.get_running_loop()
        self._socket = at
        self._listening = await loop.create_server(
            lambda: Connection(self._app, self._limits, self.connections), sock=at, backlog=4096
        )
        return at.getsockname()[1]

    def sweep(self, now: float) -> None:
        connections = tuple(self.connections)
        in_slices(lambda connection: connection.sweep(now), connections, _SWEPT_AT_ONCE)

    async def accept_waiting(self) -> None:
        """Those that the kernel has answered already would be reset when the socket is closed."""
        waiting = select.poll()
        waiting.register(self._socket.fileno(), select.POLLIN)
        for _ in range(_TURNS_MAX):
            if not waiting.poll(0):
                return
            await asyncio.sleep(0)

    def stop_listening(self) -> None:
        """New connections go elsewhere; those that are needed are answered and end."""
        if self._listening:
            self._listening.close()
        for connection in tuple(self.connections):
            connection.close_when_idle()

    def is_needed(self) -> bool:
        return any(connection.is_needed for connection in self.connections)

    def close(self) -> None:
        for connection in tuple(self.connections):
            connection.transport.abort()
