"""Routes as clients list them: models."""

from collections.abc import Mapping

import msgspec

from control.routes.snapshot import Identity, RouteInfo


def one(route: RouteInfo) -> bytes:
    return msgspec.json.encode(_model(route))


def all_of(routes: Mapping[str, RouteInfo], identity: Identity) -> bytes:
    """Those that this key may call."""
    names = sorted(routes if identity.routes is None else routes.keys() & set(identity.routes))
    return msgspec.json.encode({"object": "list", "data": [_model(routes[n]) for n in names]})


def _model(route: RouteInfo) -> dict:
    return {"id": route.name, "object": "model", "created": route.created_at, "owned_by": "weir"}
