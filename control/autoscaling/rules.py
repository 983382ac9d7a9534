"""How many replicas a deployment should have now, and why. Values in, a decision out."""

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from control.fleet.scaling import Policy, Scaling

# The band in which a fleet is neither idle nor about to queue.
BAND_LEAST, BAND_MOST = 0.70, 0.85
IDLE = 0.25
GPU_MOST = 0.70
LATE_SECONDS = 30.0  # in which calls wait for longer than their first token may take
STEP_DOWN_SECONDS = 300  # between two steps down: longer than a start and what is looked back
SETTLE_SECONDS = 600  # after another version was wanted: it is not blamed for what that costs


@dataclass(frozen=True)
class Signs:
    """What was seen of one deployment. None: nobody said, so nothing follows from it."""

    waiting: float | None = None  # calls that are not batch, in gateways and engines
    batch_waiting: float = 0.0
    oldest_seconds: float | None = None  # of those that wait and are not batch
    use_ratio: float | None = None  # of what its ready replicas can do
    urgent_ratio: float | None = None  # the part of it that is not batch
    gpu_ratio: float | None = None
    running: float | None = None  # calls, batch too


@dataclass(frozen=True)
class Fleet:
    """Replicas that count: those that serve, and those on their way."""

    wanted: int
    ready: int
    coming: int = 0

    @property
    def serving(self) -> int:
        return self.ready + self.coming


@dataclass(frozen=True)
class Memory:
    """Since when something holds; kept between looks, whoever makes them."""

    busy_since: datetime | None = None
    idle_since: datetime | None = None
    late_since: datetime | None = None
    quiet_since: datetime | None = None  # not a call
    shrank_at: datetime | None = None
    held_until: datetime | None = None


@dataclass(frozen=True)
class Bounds:
    replicas_min: int
    replicas_max: int
    is_batch: bool = False  # nobody waits for what it does
    ttft_seconds: float | None = None  # what its calls should see


@dataclass(frozen=True)
class Decision:
    wanted: int
    reason: str
    memory: Memory


def decide(
    fleet: Fleet, signs: Signs, memory: Memory, scaling: Scaling, bounds: Bounds, at: datetime
) -> Decision:
    """Bounds and schedules always; more for a queue at once, else after a window; less slowly."""
    least = min(scaling.least(bounds.replicas_min, at), bounds.replicas_max)
    memory = remember(memory, fleet, signs, scaling, bounds, at)
    if fleet.wanted < least:
        return Decision(least, f"at least {least} are wanted now", memory)
    if fleet.wanted > bounds.replicas_max:
        return Decision(bounds.replicas_max, f"at most {bounds.replicas_max} are allowed", memory)
    more, why = _more(fleet, signs, memory, scaling, bounds, at)
    if more > fleet.wanted:
        fresh = replace(memory, busy_since=None, late_since=None)
        return Decision(min(more, bounds.replicas_max), why, fresh)
    if why_less := _less(fleet, signs, memory, scaling, at, least):
        return Decision(fleet.wanted - 1, why_less, replace(memory, shrank_at=at))
    return Decision(fleet.wanted, _stays(signs, memory, at), memory)


def remember(
    memory: Memory, fleet: Fleet, signs: Signs, scaling: Scaling, bounds: Bounds, at: datetime
) -> Memory:
    """What holds goes on since it began. What is not known neither begins nor ends."""
    busy, idle = _growth(signs, scaling), _use(signs, scaling)
    most = GPU_MOST if scaling.policy == Policy.GPU else BAND_MOST
    nobody = None if signs.waiting is None else signs.waiting + signs.batch_waiting == 0
    late = None
    if bounds.ttft_seconds is not None and signs.oldest_seconds is not None:
        late = signs.oldest_seconds > bounds.ttft_seconds
    quiet = None
    if nobody is not None and (signs.running is not None or not fleet.ready):
        quiet = nobody and not signs.running
    return replace(
        memory,
        busy_since=_since(memory.busy_since, None if busy is None else busy > most, at),
        idle_since=_since(memory.idle_since, None if idle is None else idle < IDLE, at),
        late_since=_since(memory.late_since, late, at),
        quiet_since=_since(memory.quiet_since, quiet, at),
    )


def _more(
    fleet: Fleet,
    signs: Signs,
    memory: Memory,
    scaling: Scaling,
    bounds: Bounds,
    at: datetime,
) -> tuple[int, str]:
    wanted, waiting = fleet.wanted, signs.waiting or 0.0
    if not wanted:
        asked = waiting + signs.batch_waiting
        return (1, f"{asked:.0f} calls wait, and nothing serves them") if asked else (0, "")
    if bounds.is_batch or wanted >= bounds.replicas_max:
        return wanted, ""
    queued = math.ceil(waiting / scaling.queue_calls)
    if fleet.ready and queued > wanted:
        return queued, f"{waiting:.0f} calls wait, {scaling.queue_calls} for each replica"
    late = signs.oldest_seconds is not None and _lasts(memory.late_since, LATE_SECONDS, at)
    if late and fleet.ready and not fleet.coming:
        seconds = bounds.ttft_seconds or 0.0
        return wanted + 1, f"calls wait for longer than {seconds:.1f} s before they begin"
    if not _lasts(memory.busy_since, scaling.grow_seconds, at) or not fleet.serving:
        return wanted, ""
    shared = (_growth(signs, scaling) or 0.0) * fleet.ready / fleet.serving
    minutes = scaling.grow_seconds / 60
    if scaling.policy == Policy.GPU:
        return wanted + (shared > GPU_MOST), f"GPUs are {shared:.0%} busy for {minutes:.0f} min"
    after = shared * fleet.serving / (fleet.serving + 1)
    if shared > BAND_MOST and after >= BAND_LEAST:
        return wanted + 1, f"{shared:.0%} are in use for {minutes:.0f} min"
    return wanted, ""


def _less(
    fleet: Fleet,
    signs: Signs,
    memory: Memory,
    scaling: Scaling,
    at: datetime,
    least: int,
) -> str:
    if fleet.wanted <= least or fleet.coming or signs.waiting is None:
        return ""
    if memory.held_until and at < memory.held_until:
        return ""
    if fleet.wanted == 1:
        if _lasts(memory.quiet_since, scaling.zero_seconds, at):
            return f"no call for {scaling.zero_seconds} s"
        return ""
    if signs.waiting + signs.batch_waiting or fleet.ready < fleet.wanted:
        return ""
    if memory.shrank_at and at - memory.shrank_at < timedelta(seconds=STEP_DOWN_SECONDS):
        return ""
    use = _use(signs, scaling)
    if use is None or not _lasts(memory.idle_since, scaling.shrink_seconds, at):
        return ""
    after = use * fleet.wanted / (fleet.wanted - 1)
    minutes = scaling.shrink_seconds / 60
    return f"{use:.0%} are in use for {minutes:.0f} min" if after < BAND_LEAST else ""


def _growth(signs: Signs, scaling: Scaling) -> float | None:
    """What makes it grow: batch does not."""
    return signs.gpu_ratio if scaling.policy == Policy.GPU else signs.urgent_ratio


def _use(signs: Signs, scaling: Scaling) -> float | None:
    """What keeps it from shrinking: batch too."""
    return signs.gpu_ratio if scaling.policy == Policy.GPU else signs.use_ratio


def _since(since: datetime | None, holds: bool | None, at: datetime) -> datetime | None:
    if holds is None:
        return since
    return (since or at) if holds else None


def _lasts(since: datetime | None, seconds: float, at: datetime) -> bool:
    return since is not None and (at - since).total_seconds() >= seconds


def _stays(signs: Signs, memory: Memory, at: datetime) -> str:
    if signs.waiting is None:
        return "its figures are missing: it stays as it is"
    if memory.held_until and at < memory.held_until:
        return "another version was wanted a moment ago: it does not shrink yet"
    return ""
