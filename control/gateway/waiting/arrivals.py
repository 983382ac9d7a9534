"""How many calls of each priority are let in: those that will come also take turns (pure)."""

import math

from control.gateway.waiting.rules import ORDER
from control.states import Priority

_SECONDS = 5.0  # that a rate looks back
_STEP_SECONDS = 0.02  # sooner a rate is not looked at again
_ENOUGH = 5  # urgent calls: fewer say nothing of a rate, unless none come for long
_JUMP = 4.0  # standard deviations above what was expected: chance alone hardly goes so far


class Arrivals:
    """Who has `came` is counted, which costs little; rates are made of it when one is asked for."""

    def __init__(self, at: float) -> None:
        self.came = dict.fromkeys(ORDER, 0)
        self._rates = dict.fromkeys(ORDER, 0.0)  # a second
        self._began_at = self._looked_at = at

    def above(self, priority: Priority, at: float) -> float:
        """Calls a second that are more urgent."""
        since = at - self._looked_at
        urgent = sum([self.came[one] for one in ORDER[:-1]])
        if since >= _SECONDS or since >= _STEP_SECONDS and urgent >= _ENOUGH:
            self._look(at, since, urgent)
        return sum([self._rates[one] for one in ORDER[: ORDER.index(priority)]])

    def _look(self, at: float, since: float, urgent: int) -> None:
        expected = since * sum([self._rates[one] for one in ORDER[:-1]])
        if urgent >= _ENOUGH and urgent > expected + _JUMP * math.sqrt(expected):
            # A flood begins. Averaged with the quiet before, it would be believed too late: what
            # is let in till then is overtaken, and waits in vain.
            self._began_at = self._looked_at
        weight = min(since / min(at - self._began_at, _SECONDS), 1.0)
        for one, count in self.came.items():
            self._rates[one] += weight * (count / since - self._rates[one])
            self.came[one] = 0
        self._looked_at = at
