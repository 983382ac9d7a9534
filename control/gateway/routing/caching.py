"""What a prompt was to an engine that did not come to say so: tokens, and those cached (pure)."""

import math

_KEPT_SECONDS = 300.0
_BLOCK_TOKENS = 16  # an engine caches whole blocks
_USUAL_BYTES_PER_TOKEN = 4  # of an engine that has yet to say
_LATEST = 50  # prompts, about, that the density is of


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


class Density:
    """Tokens for each byte of the prompts that one engine has read of late.

    Of their sums: what a template adds would make the ratio of a short prompt too high for others.
    """

    __slots__ = ("_bytes", "_tokens")

    def __init__(self) -> None:
        self._tokens = 0.0
        self._bytes = 0.0

    def saw(self, tokens: int, text_bytes: int) -> None:
        keep = 1 - 1 / _LATEST
        self._tokens = self._tokens * keep + tokens
        self._bytes = self._bytes * keep + text_bytes

    def tokens(self, text_bytes: int, most: int) -> int:
        """Rounded down, as all that is not known; `most` is what the call set aside."""
        ratio = self._tokens / self._bytes if self._bytes else 1 / _USUAL_BYTES_PER_TOKEN
        return max(min(int(text_bytes * ratio), most), 1)


def estimated(input_tokens: int, ratio: float) -> int:
    """Whole blocks, rounded up: what is not known is the tenant's to gain."""
    blocks = math.ceil(input_tokens * ratio / _BLOCK_TOKENS)
    return min(blocks * _BLOCK_TOKENS, input_tokens)
