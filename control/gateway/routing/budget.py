"""How many calls may be tried twice: a share of those that came, so that failure does not grow."""


class RetryBudget:
    """Each call earns a part of one retry. `burst` of them are saved up, and there at the start.

    Of several processes each begins with its part of the burst and keeps no more; what it earns
    beyond is for those whose calls fail, of whichever process.
    """

    def __init__(self, *, ratio: float, burst: float, processes: int = 1) -> None:
        self._ratio = ratio
        self._retries = burst / processes
        self._most = max(self._retries, min(burst, 1.0))
        self.spare = 0.0  # earned, and not kept
        self._spare_most = burst if processes > 1 else 0.0

    def earn(self) -> None:
        if self._retries >= self._most and self.spare >= self._spare_most:
            return  # nearly always
        retries = self._retries + self._ratio
        if retries > self._most:
            self.spare = min(self.spare + retries - self._most, self._spare_most)
            retries = self._most
        self._retries = retries

    def spend(self) -> bool:
        if self._retries < 1:
            return False
        self._retries -= 1
        return True

    @property
    def lacks(self) -> float:
        """Of what it may keep; nothing as long as it has enough for the next retry."""
        return self._most - self._retries if self._retries < 1 else 0.0

    def give(self) -> float:
        """What it has to spare."""
        spare, self.spare = self.spare, 0.0
        return spare

    def get(self, retries: float) -> None:
        """Of what others had to spare."""
        self._retries = min(self._retries + retries, self._most)
