"""What gateway workers count, and how the sum of them is written for Prometheus."""

import functools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

PREFIX = "weir_"
OTHER = "other"
# A label not named here is left out: key ids, call ids and users would make a series each.
LABELS_MAX = {
    "tenant": 200,
    "route": 200,
    "deployment": 200,
    "outcome": 20,
    "priority": 8,
    "code": 100,
    "reason": 100,
    "limit": 100,
    "result": 20,
    "token_class": 8,
    "stage": 8,
    "verdict": 8,
}
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_EDGES = {
    "ttft_seconds": (
        *(0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75),
        *(1, 2, 3, 5, 7.5, 10, 20, 40, 80, 160),
    ),
    "tpot_seconds": (
        *(0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075),
        *(0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5),
    ),
}
_HELP = {
    "calls_total": ("counter", "Admitted calls that have ended, by how they ended."),
    "refused_total": ("counter", "Requests refused before admission, by code."),
    "tokens_total": ("counter", "Tokens of ended calls; the classes do not overlap."),
    "ttft_seconds": ("histogram", "From a request's arrival to its first token."),
    "tpot_seconds": ("histogram", "Time for each output token after the first."),
    "retries_total": ("counter", "Requests that a client library marked as a retry."),
    "attempts_total": (
        "counter",
        "Requests sent to engines, by route: beside calls_total, retries of ours.",
    ),
    "engine_deaths_total": ("counter", "Engines that died with calls in flight."),
    "deadly_prompts_total": ("counter", "Prompts in flight at two deaths: each is an incident."),
    "ejections_total": ("counter", "Replicas taken out of the rotation, by reason."),
    "identity_mismatch_total": ("counter", "Answers of an engine that is not the one launched."),
    "lost_tokens_total": ("counter", "Tokens of tries that calls went on without, by reason."),
    "traces_kept_total": ("counter", "Calls whose stages were written down, by reason."),
    "moderations_total": ("counter", "Texts put before a judge, by stage and verdict."),
    "continuations_total": ("counter", "Answers gone on with on another replica, by route."),
    "traces_dropped_total": ("counter", "Kept calls that the trace collector did not take."),
    "in_flight": ("gauge", "Calls that engines are working on."),
    "waiting": ("gauge", "Calls that wait for a slot, by priority."),
    "wait_seconds": ("histogram", "Wait for a slot, of the calls that had to and got one."),
    "refused_at_arrival_total": ("counter", "Calls that could not have waited, by priority."),
    "connections": ("gauge", "Open connections of tenants."),
    "snapshot_age_seconds": ("gauge", "Age of the oldest knowledge served from."),
    "budgets_away": ("gauge", "Processes that cannot ask what is left of budgets."),
    "counters_shared": ("gauge", "Processes that count limits together with all others."),
    "counters_degraded": ("gauge", "Processes that count limits alone, each with its share."),
    "ejected_replicas": ("gauge", "Replicas this gateway does not reach."),
    "spool_events": ("gauge", "Records written and not yet shipped."),
    "spool_full": ("gauge", "Processes that begin no call since usage cannot be shipped."),
    "workers": ("gauge", "Gateway processes that serve."),
}
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Buckets(NamedTuple):
    """Names of one histogram's counters, ready to be raised."""

    edges: tuple[float, ...]
    names: tuple[str, ...]  # one more than there are edges: the last is +Inf
    sum: str
    count: str


class Tally(msgspec.Struct):
    """Counts of one worker. Names are `family` or `family{label="value"}`."""

    counters: dict[str, float] = {}
    gauges: dict[str, float] = {}

    def add(self, family: str, amount: float = 1, **labels: str) -> None:
        self.raise_(name_of(family, tuple(labels.items())), amount)

    def raise_(self, name: str, amount: float = 1) -> None:
        """As `add`, where the name was made before."""
        self.counters[name] = self.counters.get(name, 0) + amount

    def observe(self, family: str, seconds: float, **labels: str) -> None:
        self.put(buckets_of(family, tuple(labels.items())), seconds)

    def put(self, buckets: Buckets, seconds: float) -> None:
        """As `observe`, where the names were made before."""
        self.raise_(buckets.names[bisect_left(buckets.edges, seconds)])
        self.raise_(buckets.sum, seconds)
        self.raise_(buckets.count)


class Bounds:
    """The values that each label has had, first come: beyond the most there are, `other`."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {label: set() for label in LABELS_MAX}

    def value(self, label: str, value: str) -> str:
        known = self._known[label]
        if value in known or len(known) < LABELS_MAX[label]:
            known.add(value)
            return value
        return OTHER

    def name(self, name: str) -> str:
        return _LABEL.sub(self._bounded, name) if "{" in name else name

    def _bounded(self, found: re.Match) -> str:
        label, value = found.groups()
        return f'{label}="{value if label == "le" else self.value(label, value)}"'


@functools.lru_cache(maxsize=8192)
def name_of(family: str, labels: tuple[tuple[str, str], ...] = ()) -> str:
    inside = _written(labels)
    return f"{family}{{{inside}}}" if inside else family


@functools.lru_cache(maxsize=1024)
def buckets_of(family: str, labels: tuple[tuple[str, str], ...] = ()) -> Buckets:
    edges = edges_of(family)
    inside = _written(labels)
    return Buckets(
        edges,
        tuple(_bucket(family, inside, bound) for bound in (*map(str, edges), "+Inf")),
        name_of(f"{family}_sum", labels),
        name_of(f"{family}_count", labels),
    )


def edges_of(family: str) -> tuple[float, ...]:
    return _EDGES.get(family, SECONDS)


def total(tallies: Iterable[Tally], bounds: Bounds | None = None) -> Tally:
    counters: Counter[str] = Counter()
    gauges: Counter[str] = Counter()
    ages = [0.0]
    for tally in tallies:
        counters.update(tally.counters)
        gauges.update(tally.gauges)
        ages.append(tally.gauges.get("snapshot_age_seconds", 0.0))
    gauges["snapshot_age_seconds"] = max(ages)
    return Tally(_within(counters, bounds) if bounds else dict(counters), dict(gauges))


def _within(counters: dict[str, float], bounds: Bounds) -> dict[str, float]:
    """Each worker names the tenants that it met first: together they may be too many."""
    kept: Counter[str] = Counter()
    for name, value in counters.items():
        kept[bounds.name(name)] += value
    return dict(kept)


def sum_of(counters: dict[str, float], base: str) -> float:
    """Over all labels."""
    return sum(value for name, value in counters.items() if name.partition("{")[0] == base)


def text(tally: Tally) -> str:
    """The exposition format; buckets are stored apart and written cumulatively."""
    by_family: dict[str, list[str]] = {}
    for name, value in (_cumulative(tally.counters) | tally.gauges).items():
        by_family.setdefault(_family(name), []).append(f"{PREFIX}{name} {_number(value)}")
    lines = []
    for family, (kind, meaning) in _HELP.items():
        if own := by_family.get(family):
            lines.append(f"# HELP {PREFIX}{family} {meaning}")
            lines.append(f"# TYPE {PREFIX}{family} {kind}")
            lines += own
    return "\n".join(lines) + "\n"


def _cumulative(counters: dict[str, float]) -> dict[str, float]:
    values = {}
    for name, value in sorted(counters.items()):
        base, _, labels = name.partition("{")
        family = base.removesuffix("_count")
        if family != base and _kind(family) == "histogram":
            values |= _buckets(counters, family, labels.removesuffix("}"))
        if not base.endswith("_bucket"):
            values[name] = value
    return values


def _buckets(counters: dict[str, float], family: str, labels: str) -> dict[str, float]:
    values, sum_ = {}, 0.0
    for bound in (*map(str, edges_of(family)), "+Inf"):
        name = _bucket(family, labels, bound)
        sum_ += counters.get(name, 0)
        values[name] = sum_
    return values


def _bucket(family: str, labels: str, bound: str) -> str:
    return f'{family}_bucket{{{labels}{"," if labels else ""}le="{bound}"}}'


def _family(name: str) -> str:
    base = name.partition("{")[0]
    for suffix in ("_bucket", "_sum", "_count"):
        if _kind(base.removesuffix(suffix)) == "histogram":
            return base.removesuffix(suffix)
    return base


def _kind(family: str) -> str:
    return _HELP.get(family, ("", ""))[0]


def _written(labels: tuple[tuple[str, str], ...]) -> str:
    known = [(name, value) for name, value in labels if name in LABELS_MAX]
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in known)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
