"""Who goes next, what a turn costs, and when a call would start: values in, values out."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from control.gateway import errors
from control.gateway.waiting.pace import Pace
from control.states import Priority

ORDER = (Priority.INTERACTIVE, Priority.STANDARD, Priority.BATCH)  # the most urgent first
# Of the turns given while it waits: what a priority gets however much waits above it.
RESERVED = {Priority.STANDARD: 0.15, Priority.BATCH: 0.05}
OWED_MAX = 2.0  # turns; a debt that cannot be paid is not saved up

INPUT_WEIGHT = 1.0
CACHED_WEIGHT = 0.1  # else a tenant would be punished for what it spares the engine
OUTPUT_WEIGHT = 2.0

_TIERS: dict[str | None, Priority] = {
    "priority": Priority.INTERACTIVE,
    "fast": Priority.INTERACTIVE,
    "default": Priority.STANDARD,
    "flex": Priority.BATCH,
}
TIERS = frozenset({*_TIERS, "auto", "scale"})  # the last two are what the tenant has

TIER_OF = {
    Priority.INTERACTIVE: "priority",
    Priority.STANDARD: "default",
    Priority.BATCH: "flex",
}

_SERVED = {
    (may, of_route, tier): max(may, of_route, _TIERS.get(tier, may), key=ORDER.index)
    for may in ORDER
    for of_route in ORDER
    for tier in (None, *TIERS)
}

Waiting = Mapping[Priority, Mapping[int, int]]  # calls, by priority and tenant


class Want(msgspec.Struct, frozen=True, gc=False):
    """What a call is in a queue: for which deployments, how urgent, whose, how large."""

    pool: frozenset[str]
    priority: Priority
    tenant: int
    input_tokens: int
    ends_by: float  # its deadline, by the clock of waits
    waiting_seconds: float  # how long it waits for a slot
    kv_tokens: int = 0  # its prompt and the answer that is expected


@dataclass(frozen=True)
class Queued:
    """It waits."""


@dataclass(frozen=True)
class TooLate:
    """It would most likely start after it gave up: better to say so at once."""

    start_seconds: float  # by then most surely
    limit_seconds: float
    expected_seconds: float | None = None


@dataclass(frozen=True)
class Crowded:
    """The queue is full, and nobody in it has to make room for this call."""

    start_seconds: float | None
    expected_seconds: float | None = None


# --- what a call asks for -------------------------------------------------------------------


def served_priority(keys: str, routes: str, tier: str | None) -> Priority:
    """The lowest of what the key may, what the route is for and what the call asks."""
    return _SERVED[keys, routes, tier]


def deadline_seconds(header: bytes | None, ms_max: int) -> float | None:
    """`X-Deadline-Ms`: how long, from its arrival, the whole answer is of use to the caller."""
    if header is None:
        return None
    text = header.strip()
    if not text.isdigit() or len(text) > len(str(ms_max)) or not 1 <= int(text) <= ms_max:
        raise errors.InvalidValue(
            f"'X-Deadline-Ms' must be a whole number of milliseconds from 1 to {ms_max}.",
            param="X-Deadline-Ms",
        )
    return int(text) / 1000


def cold_seconds(
    of_route: float | None, default: float, *, whole_seconds_max: float | None
) -> float:
    """How long a call waits for a model that loads; 0 is not at all.

    `whole_seconds_max`: of a call that cannot be told anything before its answer is whole.
    """
    seconds = default if of_route is None else of_route
    return seconds if whole_seconds_max is None else min(seconds, whole_seconds_max)


# --- whose turn -----------------------------------------------------------------------------


class Turns:
    """The most urgent goes first, but the others get their reserved share while they wait."""

    def __init__(self) -> None:
        self._owed = dict.fromkeys(RESERVED, 0.0)

    def order(self, waiting: Collection[Priority]) -> list[Priority]:
        """`waiting` in the order to ask: who is owed a whole turn, then by urgency."""
        owed = [p for p in waiting if self._owed.get(p, 0.0) >= 1]
        if not owed:
            return [p for p in ORDER if p in waiting]
        owed.sort(key=self._owed.__getitem__, reverse=True)
        return owed + [p for p in ORDER if p in waiting and p not in owed]

    def begins(self, priority: Priority) -> None:
        """It begins to wait: what it was owed when it waited last is over."""
        if priority in self._owed:
            self._owed[priority] = 0.0

    def took(self, priority: Priority, waiting: Collection[Priority]) -> None:
        """A turn was given; `waiting` waited for it. Who does not wait is owed nothing."""
        for other, share in RESERVED.items():
            owed = self._owed[other] + share if other in waiting else 0.0
            self._owed[other] = max(owed - 1, 0.0) if other is priority else min(owed, OWED_MAX)


class Service:
    """Tokens that tenants have had of one priority (virtual token counter).

    Who begins to wait starts level with the least served of those who wait, or with the last
    that left: having been idle is no credit, having used idle engines no lasting debt.
    """

    def __init__(self) -> None:
        self._had: dict[int, float] = {}
        self._floor = 0.0
        self.untold: dict[int, float] = {}  # to the other processes

    def serve_at_once(self, tenant: int, tokens: float) -> None:
        """A call that does not have to wait, since nobody does: lift, charge and left in one."""
        had, floor = self._had.get(tenant, 0.0), self._floor
        self._had[tenant] = self._floor = (had if had > floor else floor) + tokens

    def lift(self, tenant: int, waiting: Iterable[int]) -> None:
        """`tenant` begins to wait, beside those who do."""
        least = min(map(self._had.__getitem__, waiting), default=self._floor)
        self._floor = max(self._floor, least)
        self._had[tenant] = max(self._had.get(tenant, 0.0), self._floor)

    def least(self, waiting: Iterable[int]) -> int:
        return min(waiting, key=self._had.__getitem__)

    def charge(self, tenant: int, tokens: float) -> None:
        """Negative if an estimate was too high."""
        self._had[tenant] = self._had.get(tenant, self._floor) + tokens
        self.untold[tenant] = self.untold.get(tenant, 0.0) + tokens

    def note(self, tenant: int, tokens: float) -> None:
        """For the other processes."""
        self.untold[tenant] = self.untold.get(tenant, 0.0) + tokens

    def tell(self) -> dict[int, float]:
        """What was charged here since it was told last."""
        untold, self.untold = self.untold, {}
        return untold

    def hear(self, elsewhere: Mapping[int, float]) -> None:
        """What other processes told."""
        for tenant, tokens in elsewhere.items():
            self._had[tenant] = self._had.get(tenant, self._floor) + tokens

    def left(self, tenant: int) -> None:
        """It was the last that waited, or did not have to wait at all."""
        self._floor = max(self._floor, self._had.get(tenant, 0.0))

    def forget(self, waiting: Collection[int]) -> None:
        """Those who would be lifted anyway when they come again."""
        self._had = {t: had for t, had in self._had.items() if t in waiting or had > self._floor}

    def __len__(self) -> int:
        return len(self._had)


def cost(input_tokens: int, cached_tokens: int = 0, output_tokens: int = 0) -> float:
    """What a call counts for in its tenant's service; cached tokens are part of the input."""
    fresh = input_tokens - cached_tokens if input_tokens > cached_tokens else 0
    return INPUT_WEIGHT * fresh + CACHED_WEIGHT * cached_tokens + OUTPUT_WEIGHT * output_tokens


# --- whether it is worth it -----------------------------------------------------------------


def turns_until(waiting: Waiting, priority: Priority, tenant: int, coming: float = 0.0) -> float:
    """Turns to be given until a call of `tenant` that joins now has had its own.

    `coming`: more urgent calls that will still come, for each turn.
    """
    turns = _turns_inside(waiting[priority], tenant)
    rank = ORDER.index(priority)
    above = sum(sum(waiting[p].values()) for p in ORDER[:rank])
    below = sum(RESERVED[p] for p in ORDER[rank + 1 :] if waiting[p])
    if not above and not coming:
        return turns / (1 - below)
    least = turns / RESERVED[priority] / (1 - below)  # by what is reserved for it
    left = 1 - below - coming
    return min((turns + above) / left, least) if left > 0 else least


def _turns_inside(counts: Mapping[int, int], tenant: int) -> int:
    own = counts.get(tenant, 0)
    return own + 1 + sum(min(n, own + 1) for other, n in counts.items() if other != tenant)


def start(
    waiting: Waiting,
    priority: Priority,
    tenant: int,
    pace: Pace | None,
    own: Pace | None,
    coming_per_second: float = 0.0,
) -> float | None:
    """Seconds within which 99 of 100 such calls would have started; None if nobody knows.

    `pace` is that of all turns and `own` that of the priority's, since it waits: the first knows
    of those who are still to come only how many more urgent ones came, the second little at first.
    """
    guesses = []
    if pace:
        coming = coming_per_second * pace.seconds
        guesses.append(pace.seconds_for(turns_until(waiting, priority, tenant, coming)))
    if own:
        guesses.append(own.seconds_for(_turns_inside(waiting[priority], tenant)))
    return max(guesses, default=None)


def displaced(waiting: Waiting, priority: Priority, tenant: int) -> tuple[Priority, int] | None:
    """Whose youngest call leaves a full queue for this one; None if it has the least right.

    A less urgent one goes first; among equals, one of the tenant that has the most there.
    """
    for lowest in reversed(ORDER[ORDER.index(priority) :]):
        counts = waiting[lowest]
        if not counts:
            continue
        most = max(counts, key=counts.__getitem__)
        if lowest is not priority or counts[most] > counts.get(tenant, 0) + 1:
            return lowest, most
    return None
