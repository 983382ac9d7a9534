"""How the stub sleeps, and wakes: as vLLM does in dev mode, with the traps that it has."""

import asyncio
from dataclasses import dataclass
from urllib.parse import parse_qs

from engines.stub.card import Cards
from engines.stub.chunks import encode
from engines.stub.http import Request, Response

LEVELS = ("0", "1", "2")


@dataclass(frozen=True)
class Bed:
    """Without its switch it answers that it sleeps, and gives nothing back."""

    enabled: bool = False
    device_bytes: int = 0
    asleep_bytes: int = 0
    wake_seconds: float = 0.0
    wake_failure: bool = False


class Sleep:
    def __init__(self, bed: Bed, cards: Cards) -> None:
        self._bed, self._cards = bed, cards
        self._awake = asyncio.Event()
        self._awake.set()
        self.routes = {
            ("POST", "/sleep"): self._sleep,
            ("POST", "/wake_up"): self._wake_up,
            ("GET", "/is_sleeping"): self._is_sleeping,
        }

    async def is_over(self) -> None:
        """Calls that come to a sleeper hang until it wakes."""
        await self._awake.wait()

    async def _sleep(self, request: Request, response: Response) -> None:
        asked = parse_qs(request.target.partition(b"?")[2].decode())
        if asked.get("level", ["1"])[0] not in LEVELS:
            response.send(400, encode({"error": f"level must be one of {', '.join(LEVELS)}"}))
            return
        self._awake.clear()
        if self._bed.enabled:
            self._cards.hold(self._bed.asleep_bytes)
        response.send(200)

    async def _wake_up(self, _request: Request, response: Response) -> None:
        if self._bed.wake_failure:
            response.send(500, encode({"error": "CUDA error: out of memory"}))
            return
        await asyncio.sleep(self._bed.wake_seconds)
        if self._bed.enabled:
            self._cards.hold(self._bed.device_bytes)
        self._awake.set()
        response.send(200)

    async def _is_sleeping(self, _request: Request, response: Response) -> None:
        response.send(200, encode({"is_sleeping": not self._awake.is_set()}))
