"""What the signs of a launched engine mean: liveness is progress, not an answered probe."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from control.states import ReplicaState
from engines.spec import EngineLoad, Phase

BAD_PROBES = 3
GOOD_PROBES = 2
DEAD_PROBES = 6  # in a row in which the front itself says so: none of them is merely late
CANARY_SECONDS = 30  # an idle engine is asked for one token that often
DOUBT_SECONDS = 5  # one that only answers 5xx, at most that often
CANARIES_FAILED_MAX = 3  # quick ones; of those that take long two are enough
MOVING_SECONDS = 5  # counters that moved so lately outweigh any probe
LAUNCH_SECONDS = 60  # from the claim to a recorded process
PREFILLS_MAX = 3.0  # of what a prompt as long as the context should take: longer is a stall
STILL_SECONDS_MAX = 1800.0  # however slowly it reads
GROWTH_BYTES = 64 << 20  # of memory, while it starts: so much more is progress

_ORDER = (ReplicaState.STARTING, ReplicaState.LOADING, ReplicaState.WARMING)


@dataclass(frozen=True)
class Signs:
    """One look at an engine. None: not asked, or no answer."""

    alive: bool
    launched: bool = True  # a process was recorded
    phase: Phase | None = None
    answers: bool = False  # /health said 200
    says_dead: bool = False  # it said 5xx: not late, but dead behind its front
    load: EngineLoad | None = None
    memory_bytes: int | None = None  # of its processes, while it starts
    context_tokens: int = 0  # the longest prompt there may be; 0: not known


@dataclass(frozen=True)
class History:
    """What earlier looks left behind; nothing is lost when a node restarts without it."""

    load: EngineLoad | None = None
    prefill_rate: float = 0.0  # tokens a second, the best that was seen
    memory_bytes: int = 0  # that counted as progress last
    grew_at: datetime | None = None  # its memory, while it starts
    changed_at: datetime | None = None  # the counters moved
    failed_at: datetime | None = None  # it answered calls with 5xx
    asked_at: datetime | None = None  # one token was asked for
    busy_since: datetime | None = None  # running calls and no movement since
    bad_since: datetime | None = None
    bad: int = 0
    good: int = 0
    dead: int = 0  # looks in a row at which it said so itself
    canaries_failed: int = 0  # in a row
    failing_since: datetime | None = None  # the first of these was asked


@dataclass(frozen=True)
class Stay:
    pass


@dataclass(frozen=True)
class Advance:
    to: ReplicaState


@dataclass(frozen=True)
class WarmUp:
    """It says that it serves: one real call will tell."""


@dataclass(frozen=True)
class Canary:
    """Idle for a while: is there still a model behind the front?"""


@dataclass(frozen=True)
class Unwell:
    reason: str


@dataclass(frozen=True)
class Well:
    reason: str


@dataclass(frozen=True)
class Died:
    """Its process is gone; the log knows the cause."""


@dataclass(frozen=True)
class NeverLaunched:
    pass


@dataclass(frozen=True)
class Hung:
    reason: str


@dataclass(frozen=True)
class Returned:
    """Its node was thought lost; the engine ran on."""

    well: bool


Verdict = Stay | Advance | WarmUp | Canary | Unwell | Well | Died | NeverLaunched | Hung | Returned


def remember(history: History, signs: Signs, at: datetime) -> History:
    """The history with this look in it."""
    new = replace(history, bad=0, bad_since=None, good=history.good + 1)
    if not signs.answers:
        new = replace(history, good=0, bad=history.bad + 1, bad_since=history.bad_since or at)
    new = replace(new, dead=history.dead + 1 if signs.says_dead else 0)
    if (signs.memory_bytes or 0) >= history.memory_bytes + GROWTH_BYTES:
        new = replace(new, memory_bytes=signs.memory_bytes, grew_at=at)
    if signs.load is None:
        return new
    moved = _marks(signs.load) != _marks(history.load)
    busy = signs.load.running + signs.load.waiting > 0
    return replace(
        new,
        load=signs.load,
        prefill_rate=max(history.prefill_rate, _prefill_rate(history.load, signs.load)),
        changed_at=at if moved else history.changed_at,
        failed_at=at if _fails(history.load, signs.load) else history.failed_at,
        busy_since=(at if moved else history.busy_since or at) if busy else None,
    )


def judge(
    state: ReplicaState, signs: Signs, history: History, at: datetime, hang_seconds: float
) -> Verdict:
    """`history` holds this look already."""
    if not signs.alive:
        return Died() if signs.launched or state is not ReplicaState.STARTING else NeverLaunched()
    match state:
        case ReplicaState.STARTING | ReplicaState.LOADING | ReplicaState.WARMING:
            return _starting(state, signs)
        case ReplicaState.READY:
            return _serving(signs, history, at, hang_seconds)
        case ReplicaState.UNHEALTHY:
            return _unwell(signs, history, at, hang_seconds)
        case ReplicaState.LOST:
            return Returned(well=signs.answers)
        case (
            ReplicaState.PENDING
            | ReplicaState.PLACED
            | ReplicaState.PREPARING
            | ReplicaState.DRAINING
            | ReplicaState.ASLEEP
            | ReplicaState.WAKING
            | ReplicaState.STOPPED
            | ReplicaState.FAILED
        ):
            return Stay()
        case _:
            assert_never(state)


def after_canary(history: History, good: bool, at: datetime) -> History:
    if good:
        return replace(history, asked_at=at, canaries_failed=0, failing_since=None)
    failed, since = history.canaries_failed + 1, history.failing_since or at
    return replace(history, asked_at=at, canaries_failed=failed, failing_since=since)


def _starting(state: ReplicaState, signs: Signs) -> Verdict:
    says = signs.phase.name if signs.phase else "starting"
    ready = signs.answers or says == "ready"
    if ready and state is ReplicaState.WARMING:
        return WarmUp()
    reached = ReplicaState.WARMING if ready else ReplicaState(says)
    return Advance(reached) if _ORDER.index(reached) > _ORDER.index(state) else Stay()


def still_seconds_min(signs: Signs, history: History, hang_seconds: float) -> float:
    """For how long nothing may move while calls run: a long prefill is no stall.

    Which prompts it has is not known here, so the longest there may be is thought of.
    """
    if not history.prefill_rate:
        return hang_seconds
    prefill = signs.context_tokens / history.prefill_rate
    return max(hang_seconds, min(PREFILLS_MAX * prefill, STILL_SECONDS_MAX))


def _marks(load: EngineLoad | None) -> tuple | None:
    """What moves while an engine works, each by itself enough."""
    if load is None:
        return None
    return load.generation_tokens, load.iterations, load.kv_cache_ratio, load.prompt_tokens


def _prefill_rate(before: EngineLoad | None, now: EngineLoad) -> float:
    """By the time to first tokens, which waiting is a part of: rather too low than too high."""
    if before is None:
        return 0.0
    seconds = now.ttft_seconds_sum - before.ttft_seconds_sum
    read = now.prompt_tokens - before.prompt_tokens
    cached = now.cached_prompt_tokens - before.cached_prompt_tokens
    return max(read - cached, 0) / seconds if seconds > 0 else 0.0


def _serving(signs: Signs, history: History, at: datetime, hang_seconds: float) -> Verdict:
    hang_seconds = still_seconds_min(signs, history, hang_seconds)
    if stuck := _stuck_seconds(history, at):
        if stuck >= hang_seconds:
            return Unwell(f"calls run, but nothing moved for {stuck:.0f} s")
        return Stay()
    if history.bad >= BAD_PROBES and not _moving(history, at):
        return Unwell(f"{history.bad} probes in a row were bad")
    if history.canaries_failed:
        return Unwell("it answers probes, but makes no token")
    idle = signs.answers and signs.load is not None and signs.load.running == 0
    return Canary() if idle and _is_doubtful(history, at) else Stay()


def _unwell(signs: Signs, history: History, at: datetime, hang_seconds: float) -> Verdict:
    """First no more calls; if nothing moves for as long again, a new launch."""
    stuck = _stuck_seconds(history, at)
    still_seconds = still_seconds_min(signs, history, hang_seconds)
    if stuck >= 2 * still_seconds:
        return Hung(f"calls run, but nothing moved for {stuck:.0f} s")
    if history.dead >= DEAD_PROBES and not _moving(history, at):
        return Hung("its front answers, and says that the engine behind it is dead")
    if history.bad_since and not _moving(history, at):
        bad = (at - history.bad_since).total_seconds()
        if bad >= hang_seconds:
            return Hung(f"all probes were bad for {bad:.0f} s")
    if _makes_none(history, at):
        return Hung("it answers probes, but makes no token")
    if history.good < GOOD_PROBES or stuck >= still_seconds:
        return Stay()
    return Canary() if history.canaries_failed else Well(f"{history.good} good probes")


def _is_doubtful(history: History, at: datetime) -> bool:
    """It did nothing for long, or nothing since it answered calls with 5xx.

    The second says as much of the calls as of the engine: a real call tells which of them it is.
    """
    asked_at, moved_at = history.asked_at, history.changed_at
    last = max(filter(None, (asked_at, moved_at)), default=None)
    if last is None:
        return False
    if history.failed_at and history.failed_at > last:
        return asked_at is None or (at - asked_at).total_seconds() >= DOUBT_SECONDS
    return (at - last).total_seconds() >= CANARY_SECONDS


def _makes_none(history: History, at: datetime) -> bool:
    """Calls that no tenant made failed in a row, and not in one bad moment."""
    if history.canaries_failed < CANARIES_FAILED_MAX - 1 or history.failing_since is None:
        return False
    long = (at - history.failing_since).total_seconds() >= CANARY_SECONDS
    return long or history.canaries_failed >= CANARIES_FAILED_MAX


def _fails(before: EngineLoad | None, now: EngineLoad) -> bool:
    return before is not None and now.failures > before.failures


def _stuck_seconds(history: History, at: datetime) -> float:
    return (at - history.busy_since).total_seconds() if history.busy_since else 0.0


def _moving(history: History, at: datetime) -> bool:
    moved_at = history.changed_at
    return moved_at is not None and (at - moved_at).total_seconds() <= MOVING_SECONDS
