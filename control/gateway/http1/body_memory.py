"""How much memory the bodies of all requests may take: small ones are no matter, others ask."""

from control.gateway import errors
from control.gateway.http1.answers import too_large
from control.gateway.limits import Limits

SMALL_BYTES = 64 * 1024  # of each connection, without asking
_STEP_BYTES = 1024 * 1024  # of a body that does not say how long it is
_AGAIN_SECONDS = 2.0


class Bodies:
    """What is held is given back when its request is answered, or its connection gone."""

    def __init__(self, limits: Limits) -> None:
        self.held_bytes = 0
        self.small_bytes = min(SMALL_BYTES, limits.body_bytes)
        self._limits = limits
        self._held: dict[object, int] = {}  # by connection

    def hold(self, whose: object, size: int) -> int:
        """So much in all, which comes back. Raises if it is too much for one, or for all."""
        if size > self._limits.body_bytes:
            raise too_large("body", self._limits.body_bytes)
        more = size - self._held.get(whose, 0)
        if self.held_bytes + more > self._limits.bodies_bytes:
            text = "Too many large requests are being read. Please try again shortly."
            raise errors.Overloaded(text, wait_seconds=_AGAIN_SECONDS)
        self.held_bytes += more
        self._held[whose] = size
        return size

    def grow(self, whose: object, size: int) -> int:
        """It is larger than what is held of it."""
        most = self._limits.body_bytes
        return self.hold(whose, size if size > most else min(size + _STEP_BYTES, most))

    def release(self, whose: object) -> int:
        """What it may have without asking comes back."""
        self.held_bytes -= self._held.pop(whose, 0)
        return self.small_bytes
