"""Names of what is counted of calls, made once per route, tenant and priority."""

from typing import NamedTuple

from control.gateway.recording.metrics import Bounds, Buckets, Tally, buckets_of, name_of
from control.gateway.streams.chunks import Usage
from control.states import Outcome

_NAMES_MAX = 4096


class Names(NamedTuple):
    calls: dict[str, str]  # by outcome
    attempts: str
    input: str
    cached: str
    output: str
    reasoning: str
    ttft: Buckets
    tpot: Buckets


class Counted:
    """Of one process, which has met its own tenants first."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self._bounds = Bounds()
        self._names: dict[tuple[str, str, str], Names] = {}

    def names(self, route: str, tenant: str, priority: str) -> Names:
        found = self._names.get((route, tenant, priority))
        if found is None:
            if len(self._names) >= _NAMES_MAX:
                self._names.clear()
            found = self._names[route, tenant, priority] = self._made(route, tenant, priority)
        return found

    def ended(self, names: Names, outcome: Outcome, attempts: int, usage: Usage) -> None:
        counters = self.tally.counters
        get, calls = counters.get, names.calls[outcome]
        counters[calls] = get(calls, 0) + 1
        counters[names.attempts] = get(names.attempts, 0) + attempts
        counters[names.input] = get(names.input, 0) + usage.input - usage.cached
        counters[names.output] = get(names.output, 0) + usage.output - usage.reasoning
        if usage.cached:
            self.tally.raise_(names.cached, usage.cached)
        if usage.reasoning:
            self.tally.raise_(names.reasoning, usage.reasoning)

    def _made(self, route: str, tenant: str, priority: str) -> Names:
        route = self._bounds.value("route", route)
        tenant = self._bounds.value("tenant", tenant)
        who = (("route", route), ("tenant", tenant))
        how = (("priority", priority),)
        calls = {
            str(outcome): name_of("calls_total", (*who, ("outcome", outcome), *how))
            for outcome in Outcome
        }
        tokens = [
            name_of("tokens_total", (*who, ("token_class", class_), *how))
            for class_ in ("input", "cached_input", "output", "reasoning")
        ]
        where = (("route", route), *how)
        attempts = name_of("attempts_total", where)
        spans = [buckets_of(family, where) for family in ("ttft_seconds", "tpot_seconds")]
        return Names(calls, attempts, *tokens, *spans)
