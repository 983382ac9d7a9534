"""How much device time a token of each class takes: busy time, regressed on tokens. Exact."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from control.metering.cost.rules import WEIGHTS, Weights, fraction_text

USE_MIN = Fraction(30, 100)  # of an hour: below it fixed work drowns what tokens take
HOURS_MIN = 24
CLASSES = 3  # uncached input, cached input, output


@dataclass(frozen=True)
class HourOfUse:
    """One hour of one version's replicas."""

    uncached_input: int
    cached_input: int
    output: int
    busy_microseconds: int
    device_microseconds: int

    @property
    def tokens(self) -> tuple[int, int, int]:
        return (self.uncached_input, self.cached_input, self.output)

    @property
    def is_telling(self) -> bool:
        use = Fraction(self.busy_microseconds, self.device_microseconds or 1)
        return use > USE_MIN and any(self.tokens)


@dataclass(frozen=True)
class Measured:
    weights: Weights
    hours: int
    microseconds: tuple[Fraction, Fraction, Fraction]  # of busy time, by a token of each class


@dataclass(frozen=True)
class NotMeasured:
    """Why there are no weights; the given ones hold on."""

    reason: str


def measure(hours: Sequence[HourOfUse]) -> Measured | NotMeasured:
    """Non-negative least squares over the hours of more than 30 % use."""
    telling = [hour for hour in hours if hour.is_telling]
    if len(telling) < HOURS_MIN:
        return NotMeasured(
            f"{len(telling)} hour{'' if len(telling) == 1 else 's'} "
            f"of more than {fraction_text(USE_MIN * 100)} % use, "
            f"at least {HOURS_MIN} are needed"
        )
    taken = least_squares(
        [hour.tokens for hour in telling], [hour.busy_microseconds for hour in telling]
    )
    fresh, cached, output = taken
    if not fresh or not output:
        missing = "output" if fresh else "input"
        return NotMeasured(f"{missing} tokens show no time of their own in {len(telling)} hours")
    cached_weight = cached / fresh
    if not any(hour.cached_input for hour in telling):
        cached_weight = WEIGHTS.cached_input  # none was cached: nothing to measure
    return Measured(Weights(cached_weight, output / fresh), len(telling), taken)


def least_squares(
    rows: Sequence[tuple[int, ...]], values: Sequence[int]
) -> tuple[Fraction, Fraction, Fraction]:
    """The non-negative x that brings rows · x nearest to the values.

    With three unknowns there are seven sets of them that may be positive: each is solved, and the
    best of those without a negative holds. Exact, so there is nothing to converge.
    """
    square = [
        [sum(row[i] * row[j] for row in rows) for j in range(CLASSES)] for i in range(CLASSES)
    ]
    right = [
        sum(row[i] * value for row, value in zip(rows, values, strict=True)) for i in range(CLASSES)
    ]
    best, best_gain = (Fraction(0),) * CLASSES, Fraction(0)
    for count in range(1, CLASSES + 1):
        for positive in combinations(range(CLASSES), count):
            solved = _solve(
                [[square[i][j] for j in positive] for i in positive], [right[i] for i in positive]
            )
            if solved is None or min(solved) < 0:
                continue
            # At a solution the squares that are left are |values|² less this.
            gain = sum((x * right[i] for x, i in zip(solved, positive, strict=True)), Fraction(0))
            if gain > best_gain:
                at = dict(zip(positive, solved, strict=True))
                best_gain = gain
                best = tuple(at.get(i, Fraction(0)) for i in range(CLASSES))
    return best


def _solve(matrix: list[list[int]], right: list[int]) -> list[Fraction] | None:
    """Gauss and Jordan, exactly; None where the rows say the same twice."""
    size = len(right)
    rows = [
        [*map(Fraction, row), Fraction(value)] for row, value in zip(matrix, right, strict=True)
    ]
    for column in range(size):
        pivot = next((row for row in range(column, size) if rows[row][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column][column]
        rows[column] = [value / head for value in rows[column]]
        for row in range(size):
            if row != column and rows[row][column]:
                factor = rows[row][column]
                rows[row] = [
                    value - factor * above
                    for value, above in zip(rows[row], rows[column], strict=True)
                ]
    return [row[-1] for row in rows]
