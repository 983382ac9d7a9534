"""What may be asked of a route and of a deployment, whoever asks: a bucket each, none shared.

Each gateway process has its share of what an operator states. What is not stated is what the
engines can: the ends of calls per second while all slots of this process are taken.
"""

from collections.abc import Callable, Iterable
from math import ceil
from sys import maxsize

from control.gateway.admission import rules
from control.gateway.admission.rules import Denied, Gcra, Hold, Rate, Refused
from control.routes.snapshot import BucketInfo, RouteInfo, Routes, TargetInfo

Pool = tuple[frozenset[str], str]  # deployments that calls wait for together, and a priority


class Buckets:
    def __init__(self, *, processes: int, clock: Callable[[], float]) -> None:
        self._processes = processes
        self._clock = clock
        self.routes: dict[str, tuple[Rate, ...]] = {}  # of those that state one
        self.deployments: dict[str, tuple[Rate, ...]] = {}
        self.any_stated = False
        self._tats: dict[rules.Name, float] = {}
        self._capacities: dict[Pool, float] = {}  # tats too

    def know(self, routes: Routes) -> None:
        self.routes = self._stated("r", routes.routes.values())
        self.deployments = self._stated("d", routes.deployments.values())
        self.any_stated = bool(self.routes or self.deployments)
        stated = {*self.routes.values(), *self.deployments.values()}
        names = {check[:2] for checks in stated for check in checks}
        self._tats = {name: tat for name, tat in self._tats.items() if name in names}

    # --- what is stated ---

    def enter(self, route: RouteInfo, hold: Hold) -> Refused | None:
        """Before it is queued: the route's bucket has room, and that of one of its deployments."""
        closed = self._closed(route)
        if closed is not None:
            return closed
        asked = hold._replace(checks=self.routes.get(route.name, ()))
        match rules.admit(asked, self._tats, self._clock()):
            case Refused() as refused:
                return refused
            case rules.Admitted(tats=tats):
                self._tats |= tats
        return None

    def settle(self, route: RouteInfo, hold: Hold, used: rules.Used) -> None:
        """Once, by what the call used, or nothing if it failed. That it was made stays counted."""
        asked = hold._replace(checks=self.routes.get(route.name, ()))
        for check, units in rules.corrections(asked, used).values():
            self._add(check, units)

    def open(self, targets: tuple[TargetInfo, ...]) -> tuple[TargetInfo, ...]:
        """Without those whose deployment's bucket is empty."""
        now = self._clock()
        return tuple([target for target in targets if not self._empty(target.deployment, now)])

    def charge(self, deployment: str, calls: int, tokens: int) -> None:
        """As calls are sent to it, and as it turns out what they are."""
        for check in self.deployments.get(deployment, ()):
            self._add(check, tokens if check.limit == "tokens_per_second" else calls)

    # --- what is measured ---

    def crowded(self, pool: Pool, end_seconds: float, burst_seconds: float) -> Refused | None:
        """One more call would wait for these deployments, of which a call ends so often.

        Each priority has a bucket of all that they can, so that none is refused for what another
        asks: whose turn it is, is the queue's to say.
        """
        gcra = Gcra(end_seconds, ceil(burst_seconds / end_seconds) + 1)
        taken = gcra.take(self._capacities.get(pool, 0.0), self._clock())
        if isinstance(taken, Denied):
            return Refused(Rate("c", "calls_per_second", gcra.burst, gcra), taken.wait_seconds)
        return None

    def queued(self, pool: Pool, end_seconds: float) -> None:
        """It does wait."""
        self._capacities[pool] = max(self._capacities.get(pool, 0.0), self._clock()) + end_seconds

    def sweep(self, now: float) -> None:
        if self._capacities:
            self._capacities = {pool: tat for pool, tat in self._capacities.items() if tat > now}

    # --- inside ---

    def _stated(self, kind: str, named: Iterable) -> dict[str, tuple[Rate, ...]]:
        return {
            one.name: checks
            for one in named
            if one.bucket and (checks := _checks(f"{kind}:{one.name}", one.bucket, self._processes))
        }

    def _add(self, check: Rate, units: int) -> None:
        name = check[:2]
        self._tats[name] = check.gcra.adjust(self._tats.get(name, 0.0), self._clock(), units)

    def _closed(self, route: RouteInfo) -> Refused | None:
        """The deployment that has room first, if none has any now."""
        if not self.deployments:
            return None
        now = self._clock()
        empty = [self._empty(target.deployment, now) for target in route.targets]
        if not empty or not all(empty):
            return None
        return min(empty, key=lambda refused: refused.wait_seconds)

    def _empty(self, deployment: str, at: float) -> Refused | None:
        checks = self.deployments.get(deployment, ())
        answer = rules.admit(Hold(checks, 1, 0), self._tats, at)
        return answer if isinstance(answer, Refused) else None


def _checks(scope: str, bucket: BucketInfo, processes: int) -> tuple[Rate, ...]:
    stated = {
        "calls_per_second": bucket.calls_per_second,
        "tokens_per_second": bucket.tokens_per_second,
    }
    return tuple(
        # A call that is larger than the burst goes when the bucket is full, and it owes the rest.
        Rate(scope, limit, maxsize, _gcra(per_second / processes, bucket.burst_seconds))
        for limit, per_second in stated.items()
        if per_second
    )


def _gcra(per_second: float, burst_seconds: float) -> Gcra:
    return Gcra(1 / per_second, max(int(per_second * burst_seconds), 1))
