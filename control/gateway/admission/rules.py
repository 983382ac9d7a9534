"""How fast and how many: GCRA and token bucket, and what a scope's limits ask of the counters."""

from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import NamedTuple

Number = int | float | Fraction


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
        room = self.burst * self.period_seconds
        new = max(tat, at) + units * self.period_seconds
        if new - at > room:
            return Denied(new - at - room)
        remaining = floor((room - (new - at)) / self.period_seconds)
        return Granted(new, remaining, new - at)

    def give_back(self, tat: Number, at: Number, units: int = 1) -> Number:
        return max(tat - units * self.period_seconds, at)


class Rate(NamedTuple):
    """One rate limit of one scope."""

    scope: str
    limit: str  # "requests_per_minute" | "requests_per_second"
    units: int  # as the operator wrote it
    gcra: Gcra


class Slots(NamedTuple):
    """One limit on calls at once."""

    scope: str
    limit: str
    most: int


Check = Rate | Slots
CHECKED = ("requests_per_second", "requests_per_minute", "concurrent_calls")


def checks_of(scope: str, limits: dict[str, int]) -> tuple[Check, ...]:
    """What must be asked before a call of this scope; empty if it names no such limit."""
    checks: list[Check] = []
    if per_second := limits.get("requests_per_second"):
        burst = max(limits.get("burst") or per_second, 1)
        gcra = Gcra(1 / per_second, burst)
        checks.append(Rate(scope, "requests_per_second", per_second, gcra))
    if per_minute := limits.get("requests_per_minute"):
        gcra = Gcra(60 / per_minute, per_minute)
        checks.append(Rate(scope, "requests_per_minute", per_minute, gcra))
    if (most := limits.get("concurrent_calls")) is not None:
        checks.append(Slots(scope, "concurrent_calls", most))
    return tuple(checks)


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
    whole, rest = divmod(milliseconds, 1000)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    tail = f"{second}.{rest:03d}".rstrip("0").rstrip(".") if rest else str(second)
    if hours:
        return f"{hours}h{minute}m{tail}s"
    return f"{minutes}m{tail}s" if minutes else f"{tail}s"
