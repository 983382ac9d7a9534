"""Whether an engine's counters are explained by the attempts that are known of it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappush, heappushpop
from typing import NamedTuple

SHARE_MAX = 0.005  # of what the engine counted: more, and more than the next line, is an incident
TOKENS_MAX = 1000
CALLS_MAX = 50  # of an incident that are listed

EDGE_SECONDS = 2.0  # clocks of hosts, and a reading that takes its time
PACE_RATIO = 0.25  # tokens of a stream come more or less evenly
ABORT_SECONDS = 1.0  # in which an engine that is left stops
LOST_SECONDS = 3.0  # the same, if the gateway died: what it wrote down last is a second old
FASTEST_RATIO = 4.0  # a lone call to the mean of all
MADE_RATIO = 1.5  # the same, of one that runs with the others
PACE_MAX = 250.0  # tokens of one call a second, where the engine tells no pace
PROMPT_RATIO, PROMPT_TOKENS = 2, 64  # by which an estimated prompt may be wrong

WHOLE = frozenset({"complete", "incomplete", "rejected"})  # the engine came to its own end
ENGINE = "engine"
LOST = "lost"


class Tokens(NamedTuple):
    input: int = 0
    output: int = 0


class Range(NamedTuple):
    """At least and at most."""

    least: Tokens = Tokens()
    most: Tokens = Tokens()


@dataclass(frozen=True, slots=True)
class Work:
    """One attempt at an engine. Times are epoch seconds; `first_at` only where tokens stream."""

    call_id: str
    number: int
    purpose: str
    started_at: float
    first_at: float | None
    ended_at: float
    told: Tokens
    source: str
    outcome: str
    cut: bool = False

    @property
    def is_whole(self) -> bool:
        return self.outcome in WHOLE and not self.cut


@dataclass(frozen=True)
class Reading:
    """An engine's counters at an instant. The first of a launch is all zeros."""

    at: float
    prompt_tokens: int = 0
    generation_tokens: int = 0
    token_seconds_sum: float = 0.0
    token_gaps: int = 0


class Listed(NamedTuple):
    """A call of an incident, and by how many tokens it may be wrong."""

    call_id: str
    number: int
    purpose: str
    outcome: str
    source: str
    input_tokens: int
    output_tokens: int
    may_be_off: int


@dataclass(frozen=True)
class Sums:
    """Of attempts that lie within the span whole and are told by the engine itself."""

    tokens: Tokens = Tokens()
    attempts: int = 0


@dataclass(frozen=True)
class Verdict:
    """Of one span. `unexplained` is what the engine counted beyond (or short of) the range."""

    engine: Tokens
    told: Tokens
    explained: Range
    unexplained: Tokens
    attempts: int
    cut_attempts: int
    is_incident: bool
    reason: str
    calls: tuple[Listed, ...]  # where to look first: those that could be the most wrong


def judge(begin: Reading, end: Reading, whole: Sums, others: Iterable[Work]) -> Verdict:
    """`others` were cut, or run over an edge of the span: their part of it is a range."""
    engine = Tokens(
        end.prompt_tokens - begin.prompt_tokens, end.generation_tokens - begin.generation_tokens
    )
    pace = fastest(begin, end)
    told = least = most = whole.tokens
    count = cut = 0
    suspects: list[tuple[int, int, Work]] = []
    for work in others:
        ours = part(work, begin.at, end.at, pace)
        told = _plus(told, told_part(work, begin.at, end.at))
        least, most = _plus(least, ours.least), _plus(most, ours.most)
        count, cut = count + 1, cut + (not work.is_whole)
        entry = (sum(ours.most) - sum(ours.least), count, work)
        (heappush if len(suspects) < CALLS_MAX else heappushpop)(suspects, entry)
    unexplained = Tokens(*map(_beyond, engine, least, most))
    why = [
        f"{off:+,} {name} tokens of {counted:,}"
        for name, off, counted in zip(Tokens._fields, unexplained, engine, strict=True)
        if abs(off) > max(TOKENS_MAX, SHARE_MAX * counted)
    ]
    return Verdict(
        engine,
        told,
        Range(least, most),
        unexplained,
        attempts=whole.attempts + count,
        cut_attempts=cut,
        is_incident=bool(why),
        reason=" and ".join(why),
        calls=tuple(_listed(work, off) for off, _, work in sorted(suspects, reverse=True)),
    )


def fastest(begin: Reading, end: Reading) -> float:
    """Tokens a second that one call may have got."""
    gaps = end.token_gaps - begin.token_gaps
    seconds = end.token_seconds_sum - begin.token_seconds_sum
    return FASTEST_RATIO * gaps / seconds if gaps > 0 and seconds > 0 else PACE_MAX


def part(work: Work, begin_at: float, end_at: float, pace: float) -> Range:
    """What an engine counted of it between two readings."""
    total = total_of(work, pace)
    before, after = _until(work, begin_at, total, pace), _until(work, end_at, total, pace)
    return Range(
        Tokens(*(max(a - b, 0) for a, b in zip(after.least, before.most, strict=True))),
        Tokens(*(a - b for a, b in zip(after.most, before.least, strict=True))),
    )


def total_of(work: Work, pace: float) -> Range:
    """What its engine counted of it in all. Of one that came to its end, what it told itself."""
    if work.is_whole:
        return Range(work.told, work.told)
    tail = math.ceil(pace * _unseen_seconds(work))
    if work.source == ENGINE and work.told.input:
        # It told of tokens: so the prompt was read, and is counted with the first of them.
        return Range(work.told, Tokens(work.told.input, work.told.output + tail))
    prompt = work.told.input * PROMPT_RATIO + PROMPT_TOKENS
    return Range(Tokens(), Tokens(prompt, work.told.output + tail))


def told_part(work: Work, begin_at: float, end_at: float) -> Tokens:
    """As the attempt tells it, its tokens spread evenly over its time."""

    def until(at: float) -> Tokens:
        said = work.told.input if at >= _first(work) else 0
        return Tokens(said, int(work.told.output * _share(work, at)))

    return Tokens(*(a - b for a, b in zip(until(end_at), until(begin_at), strict=True)))


def _until(work: Work, at: float, total: Range, pace: float) -> Range:
    """What was counted of it until an instant, which is known by some seconds only."""
    early, late = at - EDGE_SECONDS, at + EDGE_SECONDS
    return Range(
        Tokens(
            total.least.input if early >= _first(work) else 0,
            _least_until(work, early, total.least.output),
        ),
        Tokens(
            total.most.input if late >= work.started_at else 0,
            _most_until(work, late, total.most.output, pace),
        ),
    )


def _least_until(work: Work, at: float, tokens: int) -> int:
    if at >= work.ended_at:
        return tokens
    if work.first_at is None or at < work.first_at:
        return 0  # of an answer that came at once nobody knows when it was made
    return math.floor(tokens * max(_share(work, at) - PACE_RATIO, 0.0))


def _most_until(work: Work, at: float, tokens: int, pace: float) -> int:
    if at < work.started_at:
        return 0
    if at >= work.ended_at or work.first_at is None:
        return tokens
    if at < work.first_at:
        return 0
    even = tokens * (_share(work, at) + PACE_RATIO)
    # Its tenant may have read on for long after it was made.
    made = MADE_RATIO * pace / FASTEST_RATIO * (at - work.first_at)
    return min(tokens, math.ceil(max(even, made)))


def _share(work: Work, at: float) -> float:
    first = _first(work)
    if at >= work.ended_at or work.ended_at <= first:
        return 1.0 if at >= work.ended_at else 0.0
    return max(at - first, 0.0) / (work.ended_at - first)


def _first(work: Work) -> float:
    return work.ended_at if work.first_at is None else work.first_at


def _unseen_seconds(work: Work) -> float:
    """For which an engine may have gone on with nobody reading."""
    after = LOST_SECONDS if work.outcome == LOST else ABORT_SECONDS
    since = work.started_at if work.first_at is None else work.first_at
    if work.first_at is None or work.outcome == "slow_client":
        return work.ended_at - since + after  # whoever did not read does not know what was made
    return after


def _beyond(counted: int, least: int, most: int) -> int:
    return counted - most if counted > most else min(counted - least, 0)


def _plus(one: Tokens, other: Tokens) -> Tokens:
    return Tokens(one.input + other.input, one.output + other.output)


def _listed(work: Work, off: int) -> Listed:
    whence = work.call_id, work.number, work.purpose, work.outcome, work.source
    return Listed(*whence, *work.told, may_be_off=off)
