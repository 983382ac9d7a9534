"""The replicas this process may call: the snapshot's, less those it cannot reach itself."""

from collections.abc import Callable, Iterable, Mapping

from control.gateway import errors
from control.gateway.admission.buckets import Buckets
from control.gateway.limits import Limits
from control.gateway.recording.metrics import Tally
from control.gateway.routing import rules
from control.gateway.routing.budget import RetryBudget
from control.gateway.routing.candidates import Pick
from control.gateway.routing.guards import Guards
from control.gateway.routing.health import GONE, Cause
from control.gateway.routing.live import Live
from control.gateway.routing.room import kept_slots
from control.gateway.routing.rotation import Rotation
from control.gateway.routing.rules import Candidates, Choice, Chosen, Full, NoneReady, Option
from control.gateway.waiting.pace import Mean, Pace
from control.gateway.waiting.rules import Want
from control.routes.snapshot import DeploymentInfo, ReplicaInfo, Replicas, RouteInfo
from control.states import Outcome, Priority, ReplicaState, RoutingPolicy

READY, UNHEALTHY = ReplicaState.READY, ReplicaState.UNHEALTHY
DRAINING = ReplicaState.DRAINING
_STOPPED = "The engine that was answering is being stopped."


class LiveReplicas:
    def __init__(
        self,
        *,
        processes: int,
        limits: Limits,
        clock: Callable[[], float],
        tally: Tally,
        buckets: Buckets,
    ) -> None:
        self._buckets = buckets
        self._processes = processes
        self._limits = limits
        self._clock = clock
        self._live: dict[int, Live] = {}
        self.draining: list[Live] = []
        self._ready: dict[str, list[Live]] = {}  # by deployment
        self._held_seconds: dict[str, Mean] = {}  # of a slot by a call, by deployment
        self._turns: dict[str, int] = {}  # of routes that go round
        self.guards = Guards()
        self.rotation = Rotation(limits, clock, tally, self._size)
        self.share_of: Callable[[Live], int] = self._even  # where slots are leased, what it holds
        self.retries = RetryBudget(
            ratio=limits.retry_ratio, burst=limits.retry_burst, processes=processes
        )

    def swap(self, replicas: Replicas, keys_of: Mapping[int, str]) -> None:
        """A replica that stays the same launch keeps its connections and its health."""
        live: dict[int, Live] = {}
        ready: dict[str, list[Live]] = {}
        for info in replicas.replicas:
            known = self._live.get(info.id)
            if known is None or _moved(known.info, info):
                known = Live(info, self._limits, self._clock)
            elif known.info.state == UNHEALTHY and info.state == READY:
                known.health.returned()
            known.info, known.key, known.capacity = info, keys_of.get(info.id, ""), info.slots
            known.heads.clear()
            self._size(known)
            known.room.resize(info.kv_tokens)
            known.room.cap(self.guards.share(info.deployment))
            live[info.id] = known
            if info.state == READY:
                ready.setdefault(info.deployment, []).append(known)
        for id_, gone in self._live.items():
            if live.get(id_) is not gone:
                gone.pool.close()
        self._live, self._ready = live, ready
        self.draining = [one for one in live.values() if one.info.state == DRAINING]
        still = {info.deployment for info in replicas.replicas}
        self._held_seconds = {d: mean for d, mean in self._held_seconds.items() if d in still}

    def guard(self, deployments: Iterable[DeploymentInfo], wall: float) -> None:
        if self.guards.know(deployments, wall):
            self._cap()

    def end_guards(self, wall: float) -> None:
        if self.guards.deployments and self.guards.sweep(wall):
            self._cap()

    def _cap(self) -> None:
        for live in self._live.values():
            live.room.cap(self.guards.share(live.info.deployment))

    def choose(self, route: RouteInfo, pick: Pick) -> Choice:
        """Of its targets, or else of its fallback; what was tried is not tried again."""
        now = self._clock()
        if route.policy == RoutingPolicy.ROUND_ROBIN:
            pick.turn = self._turns[route.name] = self._turns.get(route.name, 0) + 1
        ready = self._ready
        targets = route.targets
        if self._buckets.deployments:
            targets = self._buckets.open(targets)
            if not targets and route.targets:
                return Full()
        if self.guards.deployments:
            targets = self.guards.open(targets, pick.kv_tokens)
        if len(targets) == 1 and targets[0].weight > 0:
            name = targets[0].deployment
            choice = rules.choose_of_one(name, ready.get(name, ()), pick, now)
        else:
            options = [Option(t.deployment, t.weight, ready.get(t.deployment, ())) for t in targets]
            choice = rules.choose(options, pick, now)
        if route.fallback is None or isinstance(choice, Chosen):
            return choice
        if isinstance(choice, NoneReady) or pick.tried:
            spare = Option(route.fallback, 1, ready.get(route.fallback, ()))
            other = rules.choose([spare], pick, now)
            return choice if isinstance(other, NoneReady) else other
        return choice

    def choose_again(self, route: RouteInfo, pick: Pick, *, calm: bool) -> Chosen | None:
        """Another replica for a call that failed, within the budget of retries.

        `calm`: its engine had no room, so only one that does not queue itself will do.
        """
        pick.calm = calm
        choice = self.choose(route, pick)
        pick.calm = False
        return choice if isinstance(choice, Chosen) and self.retries.spend() else None

    def candidates(self, route: RouteInfo) -> Candidates:
        names = [target.deployment for target in route.targets if target.weight > 0]
        ready = [live for name in (*names, route.fallback) for live in self._ready.get(name, ())]
        return Candidates(tuple([live.figures() for live in ready]))

    def any_ready(self, route: RouteInfo) -> bool:
        names = [target.deployment for target in route.targets]
        return any(self._ready.get(name) for name in (*names, route.fallback))

    def can_serve(self, route: RouteInfo) -> bool:
        """One of its replicas is ready, and has not left the rotation."""
        names = [target.deployment for target in route.targets if target.weight > 0]
        ready = (live for name in (*names, route.fallback) for live in self._ready.get(name, ()))
        return any(not live.health.out for live in ready)

    def lost_at(self, route: RouteInfo) -> float | None:
        """When an engine of ours was lost last that the snapshot has as ready: it will hear."""
        names = [target.deployment for target in route.targets if target.weight > 0]
        ready = [live for name in (*names, route.fallback) for live in self._ready.get(name, ())]
        gone = [live for live in ready if live.health.out in GONE and live.is_ours]
        return max([live.health.left_at for live in gone], default=None)

    def is_ready(self, deployment: str) -> bool:
        return deployment in self._ready

    def pace(self, route: RouteInfo) -> Pace | None:
        """Of the ends of calls while all slots of its replicas are taken; None if unknown."""
        return rules.pace(self._sizes(route))

    def at_once(self, route: RouteInfo) -> int:
        """How many calls they run while they are full."""
        return sum([slots for slots, _ in self._sizes(route)])

    def _sizes(self, route: RouteInfo) -> list[tuple[int, Pace | None]]:
        sizes = []
        for target in route.targets:
            if target.weight > 0:
                ready = self._ready.get(target.deployment, ())
                mean = self._held_seconds.get(target.deployment)
                up = [live for live in ready if not live.health.out]
                # One on trial takes a single call now, but all of its slots once that succeeds.
                slots = sum([self._at_once(live) for live in up])
                sizes.append((slots, mean.pace if mean else None))
        return sizes

    def _at_once(self, live: Live) -> int:
        """How many calls it runs while it is full: of slots, or of tokens."""
        slots = self._even(live) - live.kept
        return min(slots, max(live.in_flight, 1)) if live.room.is_tight else slots

    def took(self, live: Live, want: Want) -> None:
        live.in_flight += 1
        live.room.held += want.kv_tokens
        if want.priority is Priority.BATCH:
            live.batch_in_flight += 1
            live.room.batch_held += want.kv_tokens
        elif want.priority is Priority.INTERACTIVE:
            live.urgent_came = True
        if self._buckets.deployments:
            self._buckets.charge(live.info.deployment, 1, want.kv_tokens)

    def holds(self, live: Live, want: Want, more_tokens: int) -> None:
        """A call has grown in the engine's cache, or is smaller than was thought."""
        live.room.take(more_tokens, is_batch=want.priority is Priority.BATCH)
        if self._buckets.deployments:
            self._buckets.charge(live.info.deployment, 0, more_tokens)

    def gave_back(self, live: Live, want: Want, kv_tokens: int) -> None:
        live.in_flight -= 1
        live.room.held -= kv_tokens
        if want.priority is Priority.BATCH:
            live.batch_in_flight -= 1
            live.room.batch_held -= kv_tokens

    def held(self, live: Live, seconds: float) -> None:
        """A call that the engine has seen kept a slot so long."""
        mean = self._held_seconds.get(live.info.deployment)
        if mean is None:
            mean = self._held_seconds[live.info.deployment] = Mean()
        mean.add(seconds)

    def succeeded(self, live: Live) -> None:
        if live.health.is_untroubled:
            return  # nearly always
        self.rotation.succeeded(live, self._even(live))

    def failed(self, live: Live, cause: Cause) -> None:
        others = self._ready.get(live.info.deployment, ())
        alone = not any(other is not live and not other.health.out for other in others)
        self.rotation.failed(live, cause, alone=alone)

    def went_on(self, live: Live) -> None:
        """A call has had tokens of it in the last second: as good as one that ended well."""
        if live.health.proved is not None:
            self.succeeded(live)

    def sweep(self, now: float) -> None:
        for live in self._live.values():
            live.pool.sweep(now)
            self.rotation.sweep(live, now)
            live.tempo.sweep(self._limits.interactive_token_seconds)
            live.keep_slots()

    def leave_overdue(self, wall: float) -> None:
        """What still runs on a replica that is stopped soon goes on elsewhere, or ends here."""
        for live in self.draining:
            if live.info.drain_by is not None and wall >= live.info.drain_by:
                for attempt in tuple(live.attempts):
                    attempt.leave(errors.Overloaded(_STOPPED, wait_seconds=1), Outcome.DRAINED)

    def close(self) -> None:
        self.rotation.close()
        for live in self._live.values():
            live.pool.close()

    def all(self) -> Iterable[Live]:
        return self._live.values()

    def ejected(self) -> int:
        return sum(live.health.out is not None for live in self._live.values())

    def _even(self, live: Live) -> int:
        """Of its slots, if all processes have as much to do."""
        return max(live.info.slots // self._processes, 1)

    def resize(self) -> None:
        """The shares of the processes have changed."""
        for live in self._live.values():
            self._size(live)

    def _size(self, live: Live) -> None:
        """What this process may use of it now."""
        share = self.share_of(live)
        live.slots, live.pool.most = live.health.slots(share), max(share, live.in_flight, 1)
        live.kept = min(live.kept, kept_slots(live.slots))
        live.lent = not share and not live.health.out


def _moved(old: ReplicaInfo, new: ReplicaInfo) -> bool:
    return (old.generation, old.host, old.port) != (new.generation, new.host, new.port)
