"""What a worker's counters gained in the last minute, from what it told each second."""

from collections import deque

from control.telemetry.messages import GatewaySample

_SECONDS = 60


class Lately:
    def __init__(self) -> None:
        self._told: dict[str, deque[tuple[float, int, int]]] = {}  # by owner

    def of(self, sample: GatewaySample, tries: float) -> dict[str, int]:
        """Calls and tries that ended, as fields of the sample."""
        told = self._told.setdefault(sample.owner, deque())
        told.append((sample.at, sample.calls_total, int(tries)))
        while sample.at - told[0][0] > _SECONDS:
            told.popleft()
        (_, calls, before), (_, calls_now, now) = told[0], told[-1]
        return {"calls_lately": calls_now - calls, "tries_lately": now - before}

    def keep_only(self, owners: set[str]) -> None:
        self._told = {owner: told for owner, told in self._told.items() if owner in owners}
