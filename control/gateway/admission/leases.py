"""Units of limits that a process holds ahead of its calls, so that most calls ask nobody (pure).

A lease is at most 1 % of its limit, and counts as used where the limit is counted. There it does
not refill while it is held, so that what all processes grant stays within the limit exactly.
"""

from math import inf

from control.gateway.admission.rules import PERSONAL, Check, Slots
from control.gateway.admission.told import words_of

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
        "in_use", "left", "lost", "low", "quiet", "room", "seen", "words",
    )  # fmt: skip

    def __init__(self, check: Check, field: str) -> None:
        self.check = check
        self.field = field  # its name among the leases of all processes
        self.words = words_of(check)
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

    def mark(self, due: list["Lease"]) -> None:
        """To be exchanged soon."""
        self.due = self.quiet = True
        due.append(self)

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
