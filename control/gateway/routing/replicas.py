"""The replicas this process may call: the snapshot's, less those it cannot reach itself."""

from collections.abc import Callable, Mapping

from control.gateway.http1.client import Pool
from control.gateway.limits import Limits
from control.gateway.routing import keys, rules
from control.gateway.routing.budget import RetryBudget
from control.gateway.routing.candidates import Candidate, Pick
from control.gateway.routing.rules import Choice, Chosen, NoneReady, Option
from control.gateway.waiting.rules import Mean, Pace, Want
from control.routes.snapshot import ReplicaInfo, Replicas, RouteInfo
from control.states import Priority, RoutingPolicy

READY = "ready"


class Live(Candidate):
    """One launch of one engine, as calls find it. Another launch is another object."""

    def __init__(self, info: ReplicaInfo, pool: Pool) -> None:
        super().__init__(info.id, info.slots, seed=keys.replica_seed(info.deployment, info.id))
        self.info = info
        self.key = ""
        self.pool = pool
        self.room.resize(info.kv_tokens)
        self.failures = 0  # in all, of calls
        self.slow = 0  # first-byte timeouts in a row
        self.ejected_until = 0.0
        self.on_trial = False


class LiveReplicas:
    def __init__(self, *, processes: int, limits: Limits, clock: Callable[[], float]) -> None:
        self._processes = processes
        self._limits = limits
        self._clock = clock
        self._live: dict[int, Live] = {}
        self._ready: dict[str, list[Live]] = {}  # by deployment
        self._held_seconds: dict[str, Mean] = {}  # of a slot by a call, by deployment
        self._turns: dict[str, int] = {}  # of routes that go round
        self.retries = RetryBudget(ratio=limits.retry_ratio, burst=limits.retry_burst)

    def swap(self, replicas: Replicas, keys_of: Mapping[int, str]) -> None:
        """A replica that stays the same launch keeps its connections and its health."""
        live: dict[int, Live] = {}
        ready: dict[str, list[Live]] = {}
        for info in replicas.replicas:
            known = self._live.get(info.id)
            if known is None or _moved(known.info, info):
                known = Live(info, self._pool(info))
            known.info, known.key, known.capacity = info, keys_of.get(info.id, ""), info.slots
            self._size(known)
            known.room.resize(info.kv_tokens)
            live[info.id] = known
            if info.state == READY:
                ready.setdefault(info.deployment, []).append(known)
        for id_, gone in self._live.items():
            if live.get(id_) is not gone:
                gone.pool.close()
        self._live, self._ready = live, ready
        still = {info.deployment for info in replicas.replicas}
        self._held_seconds = {d: mean for d, mean in self._held_seconds.items() if d in still}

    def choose(self, route: RouteInfo, pick: Pick) -> Choice:
        """Of its targets, or else of its fallback; what was tried is not tried again."""
        now = self._clock()
        if route.policy == RoutingPolicy.ROUND_ROBIN:
            pick.turn = self._turns[route.name] = self._turns.get(route.name, 0) + 1
        ready = self._ready
        options = [
            Option(t.deployment, t.weight, ready.get(t.deployment, ())) for t in route.targets
        ]
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

    def any_ready(self, route: RouteInfo) -> bool:
        names = [target.deployment for target in route.targets]
        return any(self._ready.get(name) for name in (*names, route.fallback))

    def is_ready(self, deployment: str) -> bool:
        return deployment in self._ready

    def pace(self, route: RouteInfo) -> Pace | None:
        """Of the ends of calls while all slots of its replicas are taken; None if unknown."""
        now = self._clock()
        sizes = []
        for target in route.targets:
            if target.weight > 0:
                ready = self._ready.get(target.deployment, ())
                mean = self._held_seconds.get(target.deployment)
                up = [live for live in ready if live.ejected_until <= now]
                # One on trial takes a single call now, but all of its slots once that succeeds.
                slots = sum([self._at_once(live) for live in up])
                sizes.append((slots, mean.pace if mean else None))
        return rules.pace(sizes)

    def _at_once(self, live: Live) -> int:
        """How many calls it runs while it is full: of slots, or of tokens."""
        slots = max(live.info.slots // self._processes, 1)
        return min(slots, max(live.in_flight, 1)) if live.room.is_tight else slots

    def took(self, live: Live, want: Want) -> None:
        live.in_flight += 1
        live.batch_in_flight += want.priority is Priority.BATCH
        self.holds(live, want, want.kv_tokens)

    def holds(self, live: Live, want: Want, more_tokens: int) -> None:
        """A call has grown in the engine's cache, or is smaller than was thought."""
        live.room.take(more_tokens, is_batch=want.priority is Priority.BATCH)

    def gave_back(self, live: Live, want: Want, kv_tokens: int) -> None:
        live.in_flight -= 1
        live.batch_in_flight -= want.priority is Priority.BATCH
        self.holds(live, want, -kv_tokens)

    def held(self, live: Live, seconds: float) -> None:
        """A call that the engine has seen kept a slot so long."""
        self._held_seconds.setdefault(live.info.deployment, Mean()).add(seconds)

    def succeeded(self, live: Live) -> None:
        live.slow = 0
        if live.on_trial:
            live.on_trial = False
            self._size(live)

    def failed(self, live: Live, *, eject: bool) -> None:
        """`eject`: it could not be reached, or is not who it should be."""
        live.failures += 1
        if eject or live.on_trial:
            self._eject(live)

    def was_slow(self, live: Live) -> None:
        live.failures += 1
        live.slow += 1
        if live.on_trial or live.slow >= self._limits.first_byte_failures:
            self._eject(live)

    def sweep(self, now: float) -> None:
        for live in self._live.values():
            live.pool.sweep(now)
            if live.on_trial:
                self._size(live)

    def close(self) -> None:
        for live in self._live.values():
            live.pool.close()

    def ejected(self) -> int:
        now = self._clock()
        return sum(live.ejected_until > now for live in self._live.values())

    def _pool(self, info: ReplicaInfo) -> Pool:
        return Pool(info.host, info.port, tls=info.tls, limits=self._limits, clock=self._clock)

    def _eject(self, live: Live) -> None:
        live.ejected_until = self._clock() + self._limits.eject_seconds
        live.on_trial = True
        self._size(live)

    def _size(self, live: Live) -> None:
        """What this process may use of it now."""
        live.slots = rules.slots_now(
            live.info.slots,
            self._processes,
            ejected=live.ejected_until > self._clock(),
            on_trial=live.on_trial,
        )


def _moved(old: ReplicaInfo, new: ReplicaInfo) -> bool:
    return (old.generation, old.host, old.port) != (new.generation, new.host, new.port)
