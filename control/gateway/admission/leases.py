"""Units of limits that a process holds ahead of its calls, so that most calls ask nobody (pure).

A lease is at most 1 % of its limit, and counts as used where the limit is counted. There it does
not refill while it is held, so that what all processes grant stays within the limit exactly.
"""

from collections.abc import Iterable
from math import inf

from control.gateway.admission.rules import (
    CALL,
    COUNTS,
    INPUT,
    OUTPUT,
    PERSONAL,
    Check,
    Level,
    Rate,
    Slots,
)

LEASED_FROM = 100  # a limit below is always asked: a hundredth of it is no whole unit


def block_of(check: Check) -> int:
    """How many units a process may hold unused; 0 if this limit must be asked each time."""
    if check.limit in PERSONAL:
        return 0  # too many to hold some of each
    if isinstance(check, Slots):
        return check.most // LEASED_FROM
    return min(check.units, check.gcra.burst) // LEASED_FROM


class Lease:
    """One limit's units in one process. A call spends from `left`; an exchange brings more."""

    __slots__ = (
        "__weakref__", "active", "block", "change", "check", "due", "ends", "field", "flying",
        "in_use", "left", "lost", "low", "quiet", "room", "seen",
    )  # fmt: skip

    def __init__(self, check: Check, field: str) -> None:
        self.check = check
        self.field = field  # its name among the leases of all processes
        self.block = block_of(check)
        self.low = self.block / 2  # below, the next block is asked for
        self.left = 0
        self.change = 0  # used beyond what was held, or less: to be told
        self.in_use = 0  # slots of calls that run
        self.lost = 0  # of those, how many no longer count: their lease had ended
        self.room = 0  # what the limit had left beside this lease, when last heard
        self.ends = -inf
        self.active = False  # the limit may know of it
        self.flying = 0  # exchanges under way; of these one at most brings more
        self.due = False  # to be exchanged at the end of this turn
        self.quiet = False  # no refill is to be asked: it is, or was refused a moment ago
        self.seen = -1  # `left` when last looked at

    @property
    def held(self) -> int:
        """What the limit has to count for this process."""
        return self.left + self.in_use - self.lost

    @property
    def is_empty(self) -> bool:
        return not (self.left or self.in_use or self.change or self.flying)

    def give_back(self, keep: int) -> int:
        """Nothing is spent any more of what this returns."""
        back = max(self.left - keep, 0)
        self.left -= back
        return back

    def end(self) -> None:
        """It was not renewed in time: what is left of it is nobody's."""
        self.left = 0

    def forget(self) -> None:
        """It is no longer known where the limit is counted, nor will a late word revive it."""
        self.left = 0
        self.lost = self.in_use

    def restart(self) -> None:
        """The connection is new: calls that run are announced, all else was with the old one."""
        self.left = self.change = self.lost = self.flying = 0
        self.due = self.quiet = False
        self.ends = -inf


class Taken:
    """Every scope had room. What was taken is settled where it was taken."""

    __slots__ = ("_levels", "bundle", "shared")

    def __init__(
        self,
        levels: tuple[Level, ...] = (),
        *,
        shared: bool = False,
        bundle: "Bundle | None" = None,
    ) -> None:
        self._levels = levels
        self.shared = shared  # asked for, where all processes ask
        self.bundle = bundle  # granted from leases

    @property
    def levels(self) -> tuple[Level, ...]:
        return self.bundle.levels() if self.bundle else self._levels


class Bundle:
    """The leases of all checks of a call, in the order in which a call needs them."""

    def __init__(self, checks: tuple[Check, ...], leases: Iterable[Lease]) -> None:
        """`checks` may hold some that are never leased: then each call asks for all."""
        self.checks = checks
        self.leases = tuple(leases)
        self.is_whole = len(self.leases) == len(checks)
        self._ones = _counting(self.leases, CALL)
        self._slots = tuple(lease for lease in self.leases if isinstance(lease.check, Slots))
        self._inputs = _counting(self.leases, INPUT)
        self._outputs = _counting(self.leases, OUTPUT)
        self._input_most = min((lease.block for lease in self._inputs), default=inf)
        self._output_most = min((lease.block for lease in self._outputs), default=inf)
        self.taken = Taken(bundle=self)
        minutely = [x for x in self._ones if x.check.limit == "requests_per_minute"]
        self._told = (tuple(minutely), self._inputs + self._outputs)

    def fits(self, tokens_in: int, tokens_out: int) -> bool:
        """Could a call of this size be granted from leases at all?"""
        fits = tokens_in <= self._input_most and tokens_out <= self._output_most
        return self.is_whole and fits

    def spend(self, tokens_in: int, tokens_out: int, due: list[Lease]) -> bool:
        """All or nothing. Leases that run low are added to `due`."""
        for lease in self._ones:
            if lease.left < 1:
                return False
        for lease in self._inputs:
            if lease.left < tokens_in:
                return False
        for lease in self._outputs:
            if lease.left < tokens_out:
                return False
        _spend(self._ones, 1, due)
        _spend(self._inputs, tokens_in, due)
        _spend(self._outputs, tokens_out, due)
        for lease in self._slots:
            lease.in_use += 1
        return True

    def settle(self, more_in: int, more_out: int, due: list[Lease]) -> None:
        """`more` than was held, or less if below zero. A request that was made stays counted."""
        for lease in self._slots:
            lease.in_use -= 1
            if lease.lost:
                lease.lost -= 1
                continue
            lease.left += 1
            if lease.left > lease.block and not lease.due:
                _mark(lease, due)
        if more_in:
            _change(self._inputs, more_in, due)
        if more_out:
            _change(self._outputs, more_out, due)

    def levels(self) -> tuple[Level, ...]:
        """Of requests and of tokens the tightest, as last heard and less what was spent since."""
        return tuple([_tightest(told) for told in self._told if told])


def _counting(leases: Iterable[Lease], what: str) -> tuple[Lease, ...]:
    return tuple(lease for lease in leases if COUNTS.get(lease.check.limit, CALL) == what)


def _spend(leases: tuple[Lease, ...], units: int, due: list[Lease]) -> None:
    for lease in leases:
        left = lease.left = lease.left - units
        if left < lease.low and not lease.quiet:
            _mark(lease, due)


def _change(leases: tuple[Lease, ...], units: int, due: list[Lease]) -> None:
    for lease in leases:
        lease.change += units
        if (abs(lease.change) > lease.low or not lease.active) and not lease.due:
            _mark(lease, due)


def _mark(lease: Lease, due: list[Lease]) -> None:
    lease.due = lease.quiet = True
    due.append(lease)


def _tightest(leases: tuple[Lease, ...]) -> Level:
    least = inf
    for lease in leases:
        left = lease.room + lease.left
        if left < least:
            least, tightest = left, lease
    check: Rate = tightest.check
    gcra = check.gcra
    left = min(least, gcra.burst)
    return Level(check, left, (gcra.burst - left) * gcra.period_seconds)
