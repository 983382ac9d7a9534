"""What gateway workers count, and how the sum of them is written for Prometheus."""

import functools
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

import msgspec

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_HELP = {
    "calls_total": ("counter", "Admitted calls that have ended, by route and outcome."),
    "refused_total": ("counter", "Requests refused before admission, by code."),
    "tokens_total": ("counter", "Tokens of ended calls, by route and class."),
    "ttft_seconds": ("histogram", "From a request's arrival to its first token."),
    "tpot_seconds": ("histogram", "Time for each output token after the first."),
    "retries_total": ("counter", "Requests that a client library marked as a retry."),
    "attempts_total": ("counter", "Requests sent to engines, by result."),
    "in_flight": ("gauge", "Calls that engines are working on."),
    "waiting": ("gauge", "Calls that wait for a slot."),
    "connections": ("gauge", "Open connections of tenants."),
    "snapshot_age_seconds": ("gauge", "Age of the oldest knowledge served from."),
    "counters_shared": ("gauge", "1 while limits are counted for all gateways together."),
    "ejected_replicas": ("gauge", "Replicas this gateway does not reach."),
    "spool_events": ("gauge", "Records written and not yet shipped."),
    "workers": ("gauge", "Gateway processes that serve."),
}


class Tally(msgspec.Struct):
    """Counts of one worker. Names are `family` or `family{label="value"}`."""

    counters: dict[str, float] = {}
    gauges: dict[str, float] = {}

    def add(self, family: str, amount: float = 1, **labels: str) -> None:
        name = _name(family, labels)
        self.counters[name] = self.counters.get(name, 0) + amount

    def observe(self, family: str, seconds: float) -> None:
        at = bisect_left(SECONDS, seconds)
        bound = str(SECONDS[at]) if at < len(SECONDS) else "+Inf"
        self.add(f"{family}_bucket", le=bound)
        self.add(f"{family}_sum", seconds)
        self.add(f"{family}_count")


def total(tallies: Iterable[Tally]) -> Tally:
    counters: Counter[str] = Counter()
    gauges: Counter[str] = Counter()
    ages = [0.0]
    for tally in tallies:
        counters.update(tally.counters)
        gauges.update(tally.gauges)
        ages.append(tally.gauges.get("snapshot_age_seconds", 0.0))
    gauges["snapshot_age_seconds"] = max(ages)
    return Tally(dict(counters), dict(gauges))


def sum_of(counters: dict[str, float], family: str) -> float:
    """Over all labels."""
    return sum(value for name, value in counters.items() if _family(name) == family)


def text(tally: Tally) -> str:
    """The exposition format; buckets are stored apart and written cumulatively."""
    values = _cumulative(tally.counters) | tally.gauges
    lines = []
    for family, (kind, meaning) in _HELP.items():
        own = {n: v for n, v in values.items() if _family(n) == family}
        if own:
            lines.append(f"# HELP weir_gateway_{family} {meaning}")
            lines.append(f"# TYPE weir_gateway_{family} {kind}")
            lines += [f"weir_gateway_{name} {value:g}" for name, value in own.items()]
    return "\n".join(lines) + "\n"


def _cumulative(counters: dict[str, float]) -> dict[str, float]:
    values = {n: v for n, v in sorted(counters.items()) if "_bucket{" not in n}
    for family in (name for name, (kind, _) in _HELP.items() if kind == "histogram"):
        if f"{family}_count" not in counters:
            continue
        sum_ = 0.0
        for bound in (*map(str, SECONDS), "+Inf"):
            name = _name(f"{family}_bucket", {"le": bound})
            sum_ += counters.get(name, 0)
            values[name] = sum_
    return values


def _family(name: str) -> str:
    base = name.partition("{")[0]
    for suffix in ("_bucket", "_sum", "_count"):
        if base.removesuffix(suffix) in _HELP:
            return base.removesuffix(suffix)
    return base


def _name(family: str, labels: dict[str, str]) -> str:
    return _labelled(family, tuple(labels.items())) if labels else family


@functools.lru_cache(maxsize=4096)
def _labelled(family: str, labels: tuple[tuple[str, str], ...]) -> str:
    return family + "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}"
