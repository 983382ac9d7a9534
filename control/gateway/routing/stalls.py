"""Whether an engine that answers has stopped working: a long prefill looks alike, and is none."""

from typing import NamedTuple

from control.telemetry.messages import ReplicaSample

PREFILLS_MAX = 3.0  # of what the oldest call's prompt should take
_RATE_KEPT = 0.98  # of the best prefill rate, each second with one: prompts differ


class Oldest(NamedTuple):
    """The call that has been at an engine for longest."""

    seconds: float
    input_tokens: int


class Progress:
    """Of one engine, from sample to sample. Without samples nothing can be said."""

    def __init__(self) -> None:
        self._moved_at: float | None = None
        self._kv_ratio = 0.0
        self._prefill_rate = 0.0  # tokens a second

    def note(self, said: ReplicaSample, at: float) -> None:
        worked = said.generation_tokens_per_second or said.iterations_per_second
        if self._moved_at is None or worked or said.kv_cache_ratio != self._kv_ratio:
            self._moved_at = at
        self._kv_ratio = said.kv_cache_ratio
        if measured := said.prompt_tokens_per_second:
            self._prefill_rate = max(measured, self._prefill_rate * _RATE_KEPT)

    def still_seconds(self, at: float) -> float:
        return 0.0 if self._moved_at is None else at - self._moved_at

    def is_stalled(self, at: float, oldest: Oldest | None, seconds_min: float) -> bool:
        """`seconds_min`: shorter is none, and what a prefill may take where no rate is known."""
        if oldest is None or self.still_seconds(at) < seconds_min:
            return False
        rate = self._prefill_rate
        prefill = oldest.input_tokens / rate if rate else seconds_min
        return oldest.seconds > max(PREFILLS_MAX * prefill, seconds_min)
