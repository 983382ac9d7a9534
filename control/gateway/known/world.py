"""What a gateway process knows of tenants and routes."""

from collections.abc import Callable
from typing import NamedTuple

from control.gateway.known.footing import Footing
from control.gateway.known.terms import Terms
from control.routes.snapshot import Identities, Routes

REMEMBERED = 4096  # terms, and footings, at once


class World(NamedTuple):
    """Swapped whole between two calls."""

    identities: Identities
    routes: Routes
    terms: Callable[..., Terms]  # of scopes, a route's name, and the targets of its rule if any
    footings: dict[tuple[int, str], Footing]  # by key and route
    stamp: object  # it is this one, and no other

    def remember(self, key_id: int, name: str, footing: Footing) -> None:
        if len(self.footings) >= REMEMBERED:
            self.footings.clear()
        self.footings[key_id, name] = footing
