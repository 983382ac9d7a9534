"""An upstream in a thread of its own, for tests of whole processes."""

import asyncio
import threading
from collections.abc import Callable

from tests.gateway.upstream import Script, Seen, Upstream


class Serving:
    """`hold=True` and `paced=True` of a script wait for `go_on()`."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = scripts
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "Serving":
        self._thread.start()
        self._upstream = Upstream(*self._scripts)
        self._upstream.served = "m"  # as the tables of these tests name the model
        self.port = self._run(self._upstream.start())
        return self

    def __exit__(self, *exc: object) -> None:
        self._run(self._upstream.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    @property
    def seen(self) -> list[Seen]:
        return self._upstream.seen

    def play(self, *scripts: Script) -> None:
        for script in scripts:
            script.hold = asyncio.Event() if script.hold else None
            script.gate = asyncio.Semaphore(10) if script.paced else None
        self._upstream.scripts = list(scripts)

    def go_on(self) -> None:
        for script in self._upstream.scripts:
            if script.hold:
                self._loop.call_soon_threadsafe(script.hold.set)
            if script.gate:
                for _ in range(10_000):
                    self._loop.call_soon_threadsafe(script.gate.release)

    def when_seen(self, act: Callable[[], None]) -> None:
        """`act` when the next request has arrived."""
        seen = len(self.seen)

        async def watch() -> None:
            while len(self.seen) == seen:  # noqa: ASYNC110 - the upstream has no event for it
                await asyncio.sleep(0.01)
            act()

        asyncio.run_coroutine_threadsafe(watch(), self._loop)

    def _run(self, work) -> object:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)
