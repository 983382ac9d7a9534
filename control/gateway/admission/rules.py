"""How fast and how many: GCRA as a token bucket, and one decision over all limits of a call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf
from typing import Any, NamedTuple, Protocol

import msgspec

Number = int | float | Fraction
_ROUNDING_UNITS = Fraction(1, 1_000_000)  # of clocks that count in floats


@dataclass(frozen=True)
class Granted:
    tat: Number  # the new state: theoretical arrival time
    remaining: int
    reset_seconds: Number  # until the whole burst is there again


@dataclass(frozen=True)
class Denied:
    wait_seconds: Number | None  # None: more than the burst, it never fits


@dataclass(frozen=True)
class Gcra:
    """`period_seconds` for one unit, `burst` units at once."""

    period_seconds: Number
    burst: int

    def take(self, tat: Number, at: Number, units: int = 1) -> Granted | Denied:
        if units > self.burst:
            return Denied(None)
        # Counted from `at`: floats lose the end of a small difference between two large times.
        room = self.burst * self.period_seconds
        ahead = max(tat - at, 0) + units * self.period_seconds
        if ahead > room:
            return Denied(ahead - room)
        return Granted(at + ahead, floor((room - ahead) / self.period_seconds), ahead)

    def adjust(self, tat: Number, at: Number, units: int) -> Number:
        """Give units back (below zero) or charge more of them, once it is known what was used.

        The bucket is never more than full, and owes at most as much again as it holds.
        """
        new = max(max(tat, at) + units * self.period_seconds, at)
        owed_most = at + 2 * self.burst * self.period_seconds
        return min(new, max(tat, owed_most)) if units > 0 else new

    def remaining(self, tat: Number, at: Number) -> int:
        """Whole units; below zero is what is owed."""
        return floor(self.burst - max(tat - at, 0) / self.period_seconds + _ROUNDING_UNITS)


class Rate(NamedTuple):
    """One rate limit of one scope."""

    scope: str
    limit: str  # one of CHECKED
    units: int  # as the operator wrote it
    gcra: Gcra


class Slots(NamedTuple):
    """One limit on calls at once."""

    scope: str
    limit: str
    most: int


Check = Rate | Slots
Name = tuple[str, str]  # scope and limit
CHECKED = (
    "requests_per_second",
    "requests_per_minute",
    "input_tokens_per_minute",
    "output_tokens_per_minute",
    "concurrent_calls",
)
_PER_MINUTE = CHECKED[1:4]
# Within one scope's ceiling, of each end user, each client address, and each identical call.
PERSONAL = (
    "end_user_requests_per_minute",
    "end_user_output_tokens_per_minute",
    "address_requests_per_minute",
    "identical_calls",
)
INPUT, OUTPUT, BOTH, CALL = "i", "o", "t", "r"  # what a rate counts of a call
COUNTS = {
    "input_tokens_per_minute": INPUT,
    "output_tokens_per_minute": OUTPUT,
    "end_user_output_tokens_per_minute": OUTPUT,
    "tokens_per_second": BOTH,
}


class Staked(Protocol):
    """What budgets set aside for a call."""

    def begin(self, started_at: float, on_answer: Callable[[Any], None]) -> None: ...

    def settle(self, close: Any = None, model: str = "") -> None: ...


class Hold(NamedTuple):
    """What a call sets aside before it runs; what it then used settles it."""

    checks: tuple[Check, ...]
    input_tokens: int = 0
    output_tokens: int = 0
    personal: bool = False  # some checks are of this call alone: others have others
    money: Staked | None = None  # if budgets pay for it

    def units(self, check: Rate) -> int:
        counts = COUNTS.get(check.limit, CALL)
        if counts == INPUT:
            return self.input_tokens
        if counts == OUTPUT:
            return self.output_tokens
        return self.input_tokens + self.output_tokens if counts == BOTH else 1


class Used(msgspec.Struct, frozen=True, gc=False):
    """Tokens of a call that has ended; cached ones count whole."""

    input_tokens: int = 0
    output_tokens: int = 0

    def beyond(self, hold: Hold) -> tuple[int, int]:
        """What was held too little of input and output, or too much if below zero."""
        return self.input_tokens - hold.input_tokens, self.output_tokens - hold.output_tokens


class Level(msgspec.Struct, frozen=True, gc=False):
    """A rate as the next call would find it."""

    check: Rate
    remaining: int
    reset_seconds: Number


@dataclass(frozen=True)
class Admitted:
    """Every check had room. `tats` are the new states of the rates."""

    levels: tuple[Level, ...]
    tats: dict[Name, Number]


@dataclass(frozen=True)
class Refused:
    """The check that makes the call wait longest. None: it never fits, however long it waits."""

    check: Check
    wait_seconds: Number | None
    requested: int = 1
    levels: tuple[Level, ...] = ()


SLOT_WAIT_SECONDS = 1  # nobody knows when a call ends


def admit(hold: Hold, seen: Mapping[Name, Number], at: Number) -> Admitted | Refused:
    """All checks or none. `seen`: a rate's state (absent is full), or how many calls are live."""
    tats: dict[Name, Number] = {}
    waits: list[tuple[Number, Check]] = []
    for check in hold.checks:
        name, state = check[:2], seen.get(check[:2], 0)
        if isinstance(check, Slots):
            if state >= check.most:
                waits.append((SLOT_WAIT_SECONDS, check))
            continue
        match _take(check, state, at, hold.units(check)):
            case Granted(tat=tat):
                tats[name] = tat
            case Denied(wait_seconds=wait):
                waits.append((inf if wait is None else wait, check))
    if not waits:
        return Admitted(_levels(hold, tats, at), tats)
    wait, check = max(waits, key=lambda pair: pair[0])
    requested = hold.units(check) if isinstance(check, Rate) else 1
    return Refused(check, None if wait == inf else wait, requested, _levels(hold, seen, at))


def _take(check: Rate, tat: Number, at: Number, units: int) -> Granted | Denied:
    gcra = check.gcra
    if units <= gcra.burst or units > check.units:
        return gcra.take(tat, at, units)
    # More than a process's share, though not more than the limit: it goes when the share is
    # full, and the share then owes the rest.
    taken = gcra.take(tat, at, gcra.burst)
    if isinstance(taken, Denied):
        return taken
    new = taken.tat + (units - gcra.burst) * gcra.period_seconds
    return Granted(new, 0, new - at)


def _levels(hold: Hold, tats: Mapping[Name, Number], at: Number) -> tuple[Level, ...]:
    rates = [check for check in hold.checks if isinstance(check, Rate)]
    states = [(check, tats.get(check[:2], 0)) for check in rates]
    return tuple(
        Level(check, check.gcra.remaining(tat, at), max(tat - at, 0)) for check, tat in states
    )


def corrections(hold: Hold, used: Used) -> dict[Name, tuple[Rate, int]]:
    """What settling adds to each rate, or gives back to it if below zero. Requests stay taken."""
    actual = hold._replace(input_tokens=used.input_tokens, output_tokens=used.output_tokens)
    rates = [check for check in hold.checks if isinstance(check, Rate)]
    changes = {check[:2]: (check, actual.units(check) - hold.units(check)) for check in rates}
    return {name: change for name, change in changes.items() if change[1]}


def expected_output(choices: int, max_tokens: int | None, default: int) -> int:
    """What a call sets aside of an output rate: choices × the lower of max_tokens and default.

    The upper bound would shut out all who send a large max_tokens and get short answers.
    """
    return choices * (default if max_tokens is None else min(max_tokens, default))


def checks_of(scope: str, limits: dict[str, int]) -> tuple[Check, ...]:
    """What must be asked before a call of this scope; empty if it names no such limit."""
    checks: list[Check] = []
    if per_second := limits.get("requests_per_second"):
        burst = max(limits.get("burst") or per_second, 1)
        gcra = Gcra(1 / per_second, burst)
        checks.append(Rate(scope, "requests_per_second", per_second, gcra))
    for limit in _PER_MINUTE:
        if per_minute := limits.get(limit):
            checks.append(per_minute_of(scope, limit, per_minute))
    if (most := limits.get("concurrent_calls")) is not None:
        checks.append(Slots(scope, "concurrent_calls", most))
    return tuple(checks)


def per_minute_of(scope: str, limit: str, units: int) -> Rate:
    return Rate(scope, limit, units, Gcra(60 / units, units))


def share_of(check: Check, processes: int) -> Check:
    """What one gateway process may grant alone while the shared counters are away."""
    if isinstance(check, Slots):
        return check._replace(most=max(check.most // processes, 1) if check.most else 0)
    burst = max(check.gcra.burst // processes, 1)
    return check._replace(gcra=Gcra(check.gcra.period_seconds * processes, burst))


def duration_text(seconds: Number) -> str:
    """As the rate limit headers write it: 9ms, 1.5s, 6m0s, 1h0m0s."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    if milliseconds < 60_000:
        return "%gs" % (milliseconds / 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minute = divmod(minutes, 60)
    tail = f"{rest / 1000:g}s"
    return f"{hours}h{minute}m{tail}" if hours else f"{minutes}m{tail}"
