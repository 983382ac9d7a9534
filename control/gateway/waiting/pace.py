"""How fast turns come, as the latest ones did: values in, values out."""

import math
from typing import NamedTuple

_99_PERCENT = 2.33  # standard deviations


class Pace(NamedTuple):
    """Seconds a turn, and their standard deviation, as a mean of some turns has it."""

    seconds: float
    spread_seconds: float = 0.0

    @property
    def even(self) -> "Pace":
        """As if all turns were like their mean: for what is expected, instead of nearly sure."""
        return self._replace(spread_seconds=0.0)

    def seconds_for(self, turns: float) -> float:
        """As long as so many turns take at most, in 99 of 100 cases."""
        # The turns to come are as uneven as those that were, and the mean of these is no truth.
        uneven = math.sqrt(turns + turns * turns / Mean.LATEST)
        return turns * self.seconds + _99_PERCENT * self.spread_seconds * uneven


class Mean:
    """Of the latest times; the first ones count alike, and a few are not enough to know."""

    LATEST = 50
    _ENOUGH = 5

    def __init__(self) -> None:
        self._count = 0
        self._mean = 0.0
        self._variance = 0.0

    def add(self, seconds: float) -> None:
        self._count += 1
        weight = 1 / min(self._count, self.LATEST)
        off = seconds - self._mean
        self._mean += off * weight
        self._variance = (1 - weight) * (self._variance + weight * off * off)

    @property
    def pace(self) -> Pace | None:
        if self._count < self._ENOUGH:
            return None
        return Pace(self._mean, math.sqrt(self._variance))


class Caution:
    """What guesses are multiplied by, so that 99 of 100 hold: learnt from those that did not.

    An engine that shares its processor with the flood that it serves slows down as that comes.
    """

    _UP, _MOST = 0.02, 2.0
    _DOWN = _UP * 0.005  # at rest one guess in 200 does not hold

    def __init__(self) -> None:
        self.factor = 1.0

    def learn(self, *, held: bool) -> None:
        self.factor *= 1 - self._DOWN if held else 1 + self._UP
        self.factor = min(max(self.factor, 1.0), self._MOST)


class Rhythm:
    """How the turns of one priority follow each other while it waits."""

    _REMEMBERED_SECONDS = 30.0  # so that a short pause does not let a crowd in

    def __init__(self) -> None:
        self._turn_at = -math.inf

    def begins(self, at: float) -> None:
        """It begins to wait. The pause before is not a time between turns."""
        if at - self._turn_at > self._REMEMBERED_SECONDS:
            self._between = Mean()
            self._turns = 0
            self._began_at = at
        self._turn_at = at

    def had_turn(self, at: float) -> None:
        self._between.add(at - self._turn_at)
        self._turns += 1
        self._turn_at = at

    def pace(self, at: float) -> Pace | None:
        """Unknown before the first turn. A turn that is overdue says that they slow down."""
        if not self._turns:
            return None
        pace = self._between.pace or Pace((at - self._began_at) / self._turns)
        return pace._replace(seconds=max(pace.seconds, (pace.seconds + at - self._turn_at) / 2))
