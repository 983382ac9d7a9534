"""One replica of several that have room, in the way that the route names."""

from collections.abc import Callable, Sequence

from control.gateway.routing.candidates import Candidate, Pick
from control.states import RoutingPolicy

LOAD_OF_MEAN_MAX = 1.25
# Below these shares of a replica nothing is gained by sending a call away from what it knows.
PREFIX_LOAD_FLOOR = 0.125
STICKY_LOAD_FLOOR = 0.75

Decided = tuple[Candidate, str]  # with the reason, in words
ALONE = "the only one with room"
_MASK = (1 << 64) - 1


def choose(
    pick: Pick, replicas: Sequence[Candidate], free: Sequence[Candidate], now: float
) -> Decided:
    """`free` are those of `replicas` that have room, at least one."""
    if len(free) == 1:
        return free[0], ALONE
    policy = _POLICIES[pick.policy]
    if pick.key is None and policy in (_prefix, _sticky):
        policy = _load_aware  # the call names nothing to come back to
    return policy(pick, replicas, free, now)


def ordered(key: int, replicas: Sequence[Candidate]) -> list[Candidate]:
    """By highest random weight: every process finds the same order, and one replica more or
    less moves no key between the others."""
    return sorted(replicas, key=lambda replica: mixed(key ^ replica.seed), reverse=True)


def mixed(number: int) -> int:
    """64 bits in which each bit depends on all of `number` (the finaliser of splitmix64)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


def _round_robin(
    pick: Pick, replicas: Sequence[Candidate], free: Sequence[Candidate], _now: float
) -> Decided:
    """In turn over all of them, so that one without room does not double its neighbour's share."""
    count = len(replicas)
    first = replicas[pick.turn % count]
    if first in free:
        return first, "its turn"
    return free[pick.turn % len(free)], "its turn, instead of one without room"


def _least_calls(
    pick: Pick, _replicas: Sequence[Candidate], free: Sequence[Candidate], _now: float
) -> Decided:
    return _least(free, [replica.own_load() for replica in free], pick), "fewest calls"


def _two_choices(
    pick: Pick, _replicas: Sequence[Candidate], free: Sequence[Candidate], _now: float
) -> Decided:
    bits = pick.tie >> 16
    one = bits % len(free)
    other = (one + 1 + (bits >> 16) % (len(free) - 1)) % len(free)
    a, b = free[one], free[other]
    return (a if a.own_load() <= b.own_load() else b), "fewer calls of two by chance"


def _load_aware(
    pick: Pick, _replicas: Sequence[Candidate], free: Sequence[Candidate], now: float
) -> Decided:
    return _least(free, [replica.load(now) for replica in free], pick), "least load"


def _prefix(
    pick: Pick, replicas: Sequence[Candidate], free: Sequence[Candidate], now: float
) -> Decided:
    return _by_key(pick, replicas, free, now, PREFIX_LOAD_FLOOR)


def _sticky(
    pick: Pick, replicas: Sequence[Candidate], free: Sequence[Candidate], now: float
) -> Decided:
    return _by_key(pick, replicas, free, now, STICKY_LOAD_FLOOR)


def _by_key(
    pick: Pick,
    replicas: Sequence[Candidate],
    free: Sequence[Candidate],
    now: float,
    floor: float,
) -> Decided:
    """The first in the key's order that is not busier than the others by a quarter.

    Nothing is remembered: once the first has room again, the key is back there.
    """
    loads = [replica.load(now) for replica in replicas if replica.slots > 0]
    bound = max(LOAD_OF_MEAN_MAX * sum(loads) / len(loads), floor)
    order = ordered(pick.key, [replica for replica in replicas if replica.slots > 0])
    for place, replica in enumerate(order):
        if replica in free and replica.load(now) <= bound:
            return replica, "first of its key" if place == 0 else f"number {place + 1} of its key"
    return _load_aware(pick, replicas, free, now)[0], "least load: all of its key are busier"


def _least(free: Sequence[Candidate], loads: list[float], pick: Pick) -> Candidate:
    least = min(loads)
    equal = [replica for replica, load in zip(free, loads, strict=True) if load == least]
    return equal[0] if len(equal) == 1 else equal[(pick.tie >> 16) % len(equal)]


_Policy = Callable[[Pick, Sequence[Candidate], Sequence[Candidate], float], Decided]
_POLICIES: dict[str, _Policy] = {
    RoutingPolicy.ROUND_ROBIN: _round_robin,
    RoutingPolicy.LEAST_CALLS: _least_calls,
    RoutingPolicy.TWO_CHOICES: _two_choices,
    RoutingPolicy.LOAD_AWARE: _load_aware,
    RoutingPolicy.PREFIX: _prefix,
    RoutingPolicy.STICKY: _sticky,
}
