"""Whether a replica is in the rotation, and how much of it: it leaves at once, returns slowly."""

from enum import StrEnum

from control.gateway.limits import Limits


class Cause(StrEnum):
    """How a replica failed a call, or itself."""

    UNREACHABLE = "unreachable"  # no connection
    IMPOSTOR = "impostor"  # somebody else answers at its address
    BROKE = "broke"  # the connection was reset
    DIED = "died"  # it says so itself
    STALLED = "stalled"  # it answers, and nothing moves
    SLOW = "slow"  # no first byte in time
    SILENT = "silent"  # nothing more in the middle of an answer
    ERROR = "error"
    BUSY = "busy"  # its queue is full


AT_ONCE = frozenset({Cause.UNREACHABLE, Cause.IMPOSTOR, Cause.BROKE, Cause.DIED, Cause.STALLED})
# Of a process that may have died or may not: asked at once, and calls wait for what it says.
DEATHS = frozenset({Cause.BROKE, Cause.DIED})
GONE = frozenset({Cause.UNREACHABLE, Cause.BROKE, Cause.DIED})  # most likely for good
_BACK_OFF_MAX = 8


class Health:
    """Of one launch. `out` calls none; `proved` are the calls that went well since it came back,
    None once it has earned all its slots again."""

    def __init__(self, limits: Limits) -> None:
        self.out: Cause | None = None
        self.proved: int | None = None
        self.left_at = 0.0  # it left, if it is out
        self.probe_at = 0.0
        self.failures = 0  # in all, of calls
        self._limits = limits
        self._in_a_row = 0
        self._slow_in_a_row = 0
        self._outs_in_a_row = 0  # without having been whole between

    @property
    def is_untroubled(self) -> bool:
        """Whole, and no call failed since one went well: another that does changes nothing."""
        return self.proved is None and not (self._in_a_row or self._slow_in_a_row)

    def succeeded(self, share: int) -> bool:
        """`share` is what it may have at most. True if that is more than before."""
        self._in_a_row = self._slow_in_a_row = 0
        if self.proved is None or self.out:
            return False
        self.proved += 1
        if self.proved >= share:
            self.proved = None
            self._outs_in_a_row = 0
        return True

    def failed(self, cause: Cause, now: float, *, alone: bool = False) -> bool:
        """True if it leaves the rotation by this.

        One that is `alone` stays while it answers at all: nobody would serve in its place.
        """
        if cause is Cause.BUSY:
            return False  # saturation is no illness
        self.failures += 1
        if self.out:
            return False
        if cause is Cause.SLOW:
            self._slow_in_a_row += 1
        else:
            self._in_a_row += 1
        leaves = cause in AT_ONCE or not alone and self._is_bad()
        if leaves:
            self._leave(cause, now)
        return leaves

    def probe_failed(self, cause: Cause, now: float) -> None:
        """It stays out; a dead one is asked ever more seldom."""
        self._outs_in_a_row += 1
        self.out = cause
        self.probe_at = now + self._pause()

    def returned(self) -> None:
        self.out = None
        self.proved = 0
        self._in_a_row = self._slow_in_a_row = 0

    def slots(self, share: int) -> int:
        """One call to prove itself, then one more with each that goes well."""
        if self.out:
            return 0
        return share if self.proved is None else min(self.proved + 1, share)

    def _is_bad(self) -> bool:
        if self.proved is not None:
            return True
        limits = self._limits
        return (
            self._in_a_row >= limits.failures_in_a_row
            or self._slow_in_a_row >= limits.first_byte_failures
        )

    def _leave(self, cause: Cause, now: float) -> None:
        self._outs_in_a_row += 1
        self.out, self.left_at = cause, now
        self.proved = None
        first = self._outs_in_a_row == 1
        self.probe_at = now if cause in DEATHS and first else now + self._pause()

    def _pause(self) -> float:
        doubled = 2 ** min(self._outs_in_a_row - 1, _BACK_OFF_MAX)
        return min(self._limits.eject_seconds * doubled, self._limits.eject_seconds_max)
