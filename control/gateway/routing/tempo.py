"""How fast interactive streams of a replica get their tokens, and what batch may take meanwhile."""

SHARE_LEAST = 0.1
_LOWER_FACTOR = 0.7
_RAISE_STEP = 0.05


def share_after(share: float, seconds_per_token: float | None, objective_seconds: float) -> float:
    """Batch's part of its slots and tokens, a second later: less at once, more by steps.

    None is that no interactive stream ran, which batch could have slowed down.
    """
    if seconds_per_token is not None and seconds_per_token > objective_seconds:
        return max(share * _LOWER_FACTOR, SHARE_LEAST)
    return min(share + _RAISE_STEP, 1.0)


class Tempo:
    """Of one replica, as the streams of one process have it."""

    def __init__(self) -> None:
        self.batch_share = 1.0
        self._seconds = 0.0
        self._tokens = 0

    def note(self, seconds: float, tokens: int) -> None:
        """An interactive stream got so many tokens in that time; none is slow too."""
        self._seconds += seconds
        self._tokens += tokens

    def sweep(self, objective_seconds: float) -> None:
        """Once a second."""
        pace = self._seconds / max(self._tokens, 1) if self._seconds else None
        self.batch_share = share_after(self.batch_share, pace, objective_seconds)
        self._seconds, self._tokens = 0.0, 0
