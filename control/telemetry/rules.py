"""Counters of an engine, read twice, become rates; many samples become one point."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from control.telemetry.messages import ReplicaSample
from engines.spec import EngineLoad

RATES = (
    *("prompt_tokens", "generation_tokens", "cached_prompt_tokens"),
    *("preemptions", "iterations"),
)
COUNTERS = (*RATES, "ttft_count", "tpot_count")
NOT_MEASURED = frozenset({"at", "replica_id", "memory_total_bytes"})
KEPT_AS_MAXIMUM = frozenset(
    {"running", "waiting", "in_flight", "utilisation_ratio", "kv_cache_ratio", "ttft_seconds"}
)


@dataclass(frozen=True)
class Reading:
    """What an engine said, and when."""

    at: float
    load: EngineLoad


def restarted(now: EngineLoad, before: EngineLoad) -> bool:
    """Another start time, or a counter that went back: what was counted before is gone."""
    if now.started_at_seconds != before.started_at_seconds:
        return True
    return any(getattr(now, name) < getattr(before, name) for name in COUNTERS)


def replica_sample(
    replica_id: int, label: str, now: Reading, before: Reading | None
) -> ReplicaSample:
    """Gauges as they are, counters as rates. After a restart counting began at zero."""
    load = now.load
    sample = ReplicaSample(
        at=now.at,
        replica_id=replica_id,
        label=label,
        running=load.running,
        waiting=load.waiting,
        kv_cache_ratio=load.kv_cache_ratio,
    )
    if before is None or now.at <= before.at:
        return sample
    anew = restarted(load, before.load)
    base = EngineLoad() if anew else before.load
    seconds = now.at - before.at
    rates = {name: (getattr(load, name) - getattr(base, name)) / seconds for name in RATES}
    return replace(
        sample,
        **{f"{name}_per_second": rate for name, rate in rates.items()},
        ttft_seconds=_mean("ttft", load, base),
        tpot_seconds=_mean("tpot", load, base),
        busy_ratio=_busy_ratio(load, base, seconds),
        restarted=anew,
    )


def _busy_ratio(load: EngineLoad, base: EngineLoad, seconds: float) -> float:
    """A call that runs at both ends ran all the time; else what calls took to produce tokens.

    The latter is exact for one call at a time, also for one shorter than the time between.
    """
    if load.running and base.running:
        return 1.0
    took = load.ttft_seconds_sum - base.ttft_seconds_sum
    took += load.tpot_seconds_sum - base.tpot_seconds_sum
    return min(max(took / seconds, 0.0), 1.0)


def _mean(name: str, load: EngineLoad, base: EngineLoad) -> float | None:
    """Of the calls since the reading before; None when there were none."""
    calls = getattr(load, f"{name}_count") - getattr(base, f"{name}_count")
    seconds = getattr(load, f"{name}_seconds_sum") - getattr(base, f"{name}_seconds_sum")
    return seconds / calls if calls > 0 and seconds >= 0 else None


def window_start(at: float, resolution_seconds: int) -> int:
    return int(at // resolution_seconds) * resolution_seconds


def point(samples: Sequence[dict]) -> dict[str, float]:
    """The mean of each measured number, and the maximum of those whose peaks matter (`…_max`)."""
    values: dict[str, float] = {}
    names = {name for sample in samples for name in sample} - NOT_MEASURED
    for name in sorted(names):
        known = [
            sample[name]
            for sample in samples
            if isinstance(sample.get(name), int | float) and not isinstance(sample[name], bool)
        ]
        if known:
            values[name] = round(sum(known) / len(known), 6)
            if name in KEPT_AS_MAXIMUM:
                values[f"{name}_max"] = max(known)
    return values
