"""What ordinary calls to one replica have in common: made once, until something changes of it."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from control.gateway.express.asked import template
from control.gateway.express.records import templates
from control.gateway.known.footing import Footing
from control.gateway.routing.live import Live
from control.gateway.streams.names import name_of
from control.routes.snapshot import Identity, ReplicaInfo

_WAYS_MAX = 256  # replicas, at once


class _Way(Protocol):
    info: ReplicaInfo


_Kind = TypeVar("_Kind", bound=_Way)


class Ways(Generic[_Kind]):
    __slots__ = ("_known", "_make")

    def __init__(self, make: Callable[[Live], _Kind]) -> None:
        self._make = make
        self._known: dict[int, _Kind] = {}

    def to(self, live: Live) -> _Kind:
        way = self._known.get(live.id)
        return way if way is not None and way.info is live.info else self._new(live)

    def _new(self, live: Live) -> _Kind:
        if len(self._known) >= _WAYS_MAX:
            self._known.clear()
        way = self._known[live.id] = self._make(live)
        return way


def common(footing: Footing, identity: Identity, priority: str, live: Live, *, streams: bool):
    """The members that all ways have."""
    info, name = live.info, footing.route.name
    opened, closed = templates(identity, name, info, priority, streams=streams)
    return {
        "info": info,
        "served_name": info.served_name,
        "asked": template(live),
        "name": name_of(name, info.served_name, ""),
        "opened": opened,
        "closed": closed,
    }
