"""The leases of all limits of a call, and a purse of their units, so that few calls touch them."""

from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from control.gateway.admission.leases import Lease
from control.gateway.admission.rules import (
    CALL,
    COUNTS,
    INPUT,
    OUTPUT,
    Check,
    Level,
    Slots,
    duration_text,
)

PURSE_CALLS = 16  # that it holds units for
_FREE_MOST = 4 * PURSE_CALLS  # slots of calls that ended
_MANY = 2**62  # where no limit counts


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


class Tightest(NamedTuple):
    """Of some limits of one kind the one with the least left, less what is in the purse."""

    lease: Lease | None
    left: float


class Bundle:
    """The leases of all checks of a call, in the order in which a call needs them.

    A purse holds units of all of them, taken out at once for several calls. It knows how many
    have begun and ended since, and what they used beyond what was set aside for them, or less.
    `close` puts all that where it belongs, and comes before anybody else looks at a lease.
    """

    __slots__ = (
        "_any_lost", "_input_most", "_inputs", "_minutely", "_more_most", "_ones", "_output_most",
        "_outputs", "_slots", "_tightest", "begun", "calls", "checks", "free", "is_open",
        "is_whole", "leases", "more_in", "more_out", "taken", "tokens_in", "tokens_out",
    )  # fmt: skip

    def __init__(self, checks: tuple[Check, ...], leases: Iterable[Lease]) -> None:
        """`checks` may hold some that are never leased: then each call asks for all."""
        self.checks = checks
        self.leases = tuple(leases)
        self.is_whole = len(self.leases) == len(checks)
        ones = _counting(self.leases, CALL)
        self._slots = tuple(lease for lease in ones if isinstance(lease.check, Slots))
        self._ones = tuple(lease for lease in ones if lease not in self._slots)
        self._minutely = tuple(x for x in ones if x.check.limit == "requests_per_minute")
        self._inputs = _counting(self.leases, INPUT)
        self._outputs = _counting(self.leases, OUTPUT)
        self._input_most = min((lease.block for lease in self._inputs), default=inf)
        self._output_most = min((lease.block for lease in self._outputs), default=inf)
        self._more_most = min(self._input_most, self._output_most) / 2
        self.taken = Taken(bundle=self)
        self.is_open = False  # a call has begun or ended since it was closed
        self._any_lost = False  # of the calls that run some no longer count
        self._tightest: tuple[Tightest, ...] | None = None  # since it was filled
        self._empty()

    def fits(self, tokens_in: int, tokens_out: int) -> bool:
        """Could a call of this size be granted from leases at all?"""
        fits = tokens_in <= self._input_most and tokens_out <= self._output_most
        return self.is_whole and fits

    def spend(self, tokens_in: int, tokens_out: int, due: list[Lease]) -> bool:
        """All or nothing. Leases that run low are added to `due`."""
        is_short = self.tokens_in < tokens_in or self.tokens_out < tokens_out
        if is_short or self.calls < 1 or self.free < 1:
            self.close(due)
            if not self._fill(tokens_in, tokens_out, due):
                return False
        self.calls -= 1
        self.free -= 1
        self.begun += 1
        self.tokens_in -= tokens_in
        self.tokens_out -= tokens_out
        return True

    def settle(self, more_in: int, more_out: int, due: list[Lease]) -> None:
        """`more` than was held, or less if below zero. A request that was made stays counted."""
        if not self.is_open:
            self._open()
        if self._any_lost:
            self._end_one(due)
        else:
            self.free += 1
            self.begun -= 1
        more_in = self.more_in = self.more_in + more_in
        more_out = self.more_out = self.more_out + more_out
        most = self._more_most
        if not (-most <= more_in <= most and -most <= more_out <= most and self.free <= _FREE_MOST):
            self.close(due)

    def close(self, due: list[Lease]) -> None:
        """Leases that have to be told of are added to `due`."""
        if not self.is_open:
            return
        self.is_open, self._tightest = False, None
        for leases, units in self._purse():
            for lease in leases:
                lease.left += units
        for lease in self._slots:
            lease.in_use += self.begun
            if lease.left > lease.block and not lease.due:
                lease.mark(due)
        _correct(self._inputs, self.more_in, due)
        _correct(self._outputs, self.more_out, due)
        self._empty()

    def levels(self) -> tuple[Level, ...]:
        """Of requests and of tokens the tightest, as last heard and less what was spent since."""
        return tuple([_level(*told) for told in self._told()])

    def lines(self) -> bytes:
        """The headers that tell the same."""
        written = b""
        for lease, left in self._told():
            gcra = lease.check.gcra
            burst = gcra.burst
            left = left if left < burst else burst
            reset = duration_text((burst - left) * gcra.period_seconds)
            written += lease.words % (left if left > 0 else 0, reset.encode())
        return written

    # --- inside ---

    def _purse(self) -> tuple[tuple[tuple[Lease, ...], int], ...]:
        return (
            (self._ones, self.calls),
            (self._slots, self.free),
            (self._inputs, self.tokens_in),
            (self._outputs, self.tokens_out),
        )

    def _fill(self, tokens_in: int, tokens_out: int, due: list[Lease]) -> bool:
        """For this call at least, and for others like it with half of what is left at most: the
        rest is for calls that share some of these leases."""
        calls = _part(self._ones, 1, PURSE_CALLS)
        free = _part(self._slots, 1, PURSE_CALLS)
        inputs = _part(self._inputs, tokens_in, PURSE_CALLS * tokens_in)
        outputs = _part(self._outputs, tokens_out, PURSE_CALLS * tokens_out)
        if calls < 1 or free < 1 or inputs < tokens_in or outputs < tokens_out:
            return False
        self._open()
        self.calls, self.free, self.tokens_in, self.tokens_out = calls, free, inputs, outputs
        for leases, units in self._purse():
            for lease in leases:
                left = lease.left = lease.left - units
                if left < lease.low and not lease.quiet:
                    lease.mark(due)
        return True

    def _open(self) -> None:
        self.is_open, self._tightest = True, None
        self._any_lost = any(lease.lost for lease in self._slots)

    def _empty(self) -> None:
        self.calls = self.free = self.begun = 0
        self.tokens_in = self.tokens_out = self.more_in = self.more_out = 0

    def _end_one(self, due: list[Lease]) -> None:
        for lease in self._slots:
            lease.in_use -= 1
            if lease.lost:
                lease.lost -= 1
                continue
            lease.left += 1
            if lease.left > lease.block and not lease.due:
                lease.mark(due)

    def _told(self) -> list[tuple[Lease, int]]:
        known = self._tightest
        if known is None:
            groups = self._minutely, self._inputs, self._outputs
            known = tuple([_tightest(leases) for leases in groups])
            self._tightest = known if self.calls else None
        (calls, left), (inputs, left_in), (outputs, left_out) = known
        told = [] if calls is None else [(calls, left + self.calls)]
        left_in += self.tokens_in
        left_out += self.tokens_out
        if inputs is not None and left_in <= left_out:
            told.append((inputs, left_in))
        elif outputs is not None:
            told.append((outputs, left_out))
        return told


def _counting(leases: Iterable[Lease], what: str) -> tuple[Lease, ...]:
    return tuple(lease for lease in leases if COUNTS.get(lease.check.limit, CALL) == what)


def _part(leases: tuple[Lease, ...], least: int, most: int) -> int:
    """What to take of each; less than `least` if there is not as much in all of them."""
    left = _MANY
    for lease in leases:
        if lease.left < left:
            left = lease.left
    half = left // 2
    if half >= most:
        return most
    return half if half > least else min(left, least)


def _correct(leases: tuple[Lease, ...], more: int, due: list[Lease]) -> None:
    if not more:
        return
    for lease in leases:
        change = lease.change = lease.change + more
        if (not -lease.low <= change <= lease.low or not lease.active) and not lease.due:
            lease.mark(due)


def _tightest(leases: tuple[Lease, ...]) -> Tightest:
    least, tightest = inf, None
    for lease in leases:
        left = lease.room + lease.left
        if left < least:
            least, tightest = left, lease
    return Tightest(tightest, least)


def _level(lease: Lease, left: int) -> Level:
    gcra = lease.check.gcra
    left = min(left, gcra.burst)
    return Level(lease.check, left, (gcra.burst - left) * gcra.period_seconds)
