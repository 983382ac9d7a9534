"""What a reading of an engine that Weir did not launch says, and what it follows. Pure."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from engines.spec import EngineLoad

NO_COUNTERS = "its /metrics has no vllm:prompt_tokens_total: Weir reads the counters of vLLM"
SKEW_SECONDS = 60.0  # between its clock and ours: a restart that is nearer shows in its counters
_COUNTERS = re.compile(r"^vllm:prompt_tokens_total[ {]", re.MULTILINE)


@dataclass(frozen=True)
class Counted:
    """The last reading that was written down. Times are epoch seconds."""

    counted_from: float
    prompt_tokens: int
    generation_tokens: int


class Series(NamedTuple):
    """Readings that can be held against each other."""

    counted_from: float
    begins: bool  # with this reading: what was counted before it is nobody's


def has_counters(page: str) -> bool:
    return _COUNTERS.search(page) is not None


def series(last: Counted | None, load: EngineLoad, at: float) -> Series:
    """Which one a reading belongs to.

    It ran before it was ours, so the first reading is where counting begins; so is one that is
    below the last without a word of a restart. An engine that tells of one counts from zero.
    """
    if last is None:
        return Series(at, begins=True)
    if load.started_at_seconds > last.counted_from + SKEW_SECONDS:
        return Series(load.started_at_seconds, begins=False)
    fell = (
        load.prompt_tokens < last.prompt_tokens or load.generation_tokens < last.generation_tokens
    )
    return Series(at, begins=True) if fell else Series(last.counted_from, begins=False)
