"""How many calls may be tried twice: a share of those that came, so that failure does not grow."""


class RetryBudget:
    """Each call earns a part of one retry. `burst` of them are saved up, and there at the start."""

    def __init__(self, *, ratio: float, burst: float) -> None:
        self._ratio = ratio
        self._burst = burst
        self._retries = burst

    def earn(self) -> None:
        self._retries = min(self._retries + self._ratio, self._burst)

    def spend(self) -> bool:
        if self._retries < 1:
            return False
        self._retries -= 1
        return True
