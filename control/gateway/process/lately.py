"""What a worker's counters gained in the last minute, from what it told each second."""

from collections import deque
from typing import NamedTuple

from control.telemetry.messages import GatewaySample

_SECONDS = 60


class Counts(NamedTuple):
    """Since the worker began."""

    calls: int = 0  # that ended
    tries: int = 0  # of those at engines
    requests: int = 0  # of tenants, refused ones among them
    retries: int = 0  # of those, that their clients marked as another try


class Lately:
    def __init__(self) -> None:
        self._told: dict[str, deque[tuple[float, Counts]]] = {}  # by owner

    def of(self, sample: GatewaySample, counts: Counts) -> dict[str, int]:
        """As fields of the sample."""
        told = self._told.setdefault(sample.owner, deque())
        told.append((sample.at, counts))
        while sample.at - told[0][0] > _SECONDS:
            told.popleft()
        before, now = told[0][1], told[-1][1]
        gained = zip(Counts._fields, before, now, strict=True)
        return {f"{name}_lately": last - first for name, first, last in gained}

    def keep_only(self, owners: set[str]) -> None:
        self._told = {owner: told for owner, told in self._told.items() if owner in owners}
