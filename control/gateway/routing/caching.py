"""How much of a prompt an engine had in its cache, where it did not come to say so (pure)."""

import math

_KEPT_SECONDS = 300.0
_BLOCK_TOKENS = 16  # an engine caches whole blocks


class CacheHits:
    """The best share of late that one engine found in its cache: of a call, or of a second."""

    __slots__ = ("_at", "_ratio")

    def __init__(self) -> None:
        self._ratio = 0.0
        self._at = float("-inf")

    def saw(self, cached: float, prompt: float, now: float) -> None:
        if prompt <= 0:
            return
        ratio = min(cached / prompt, 1.0)
        if ratio >= self.ratio(now):
            self._ratio, self._at = ratio, now

    def ratio(self, now: float) -> float:
        return self._ratio if now - self._at <= _KEPT_SECONDS else 0.0


def estimated(input_tokens: int, ratio: float) -> int:
    """Whole blocks, rounded up: what is not known is the tenant's to gain."""
    blocks = math.ceil(input_tokens * ratio / _BLOCK_TOKENS)
    return min(blocks * _BLOCK_TOKENS, input_tokens)
