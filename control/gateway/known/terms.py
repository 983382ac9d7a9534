"""What holds for every call of the same scopes on the same route: values in, values out."""

from typing import NamedTuple

from control.gateway.admission.credit import Spending, spending_of
from control.gateway.admission.personal import personal_scopes
from control.gateway.admission.rules import Check
from control.gateway.bodies.ceilings import Room, lowest
from control.routes.snapshot import Identities, Routes, Scope, TargetInfo


class Terms(NamedTuple):
    """What holds for every call of the same scopes on the same route."""

    checks: tuple[Check, ...]
    room: Room
    context_tokens: int | None  # the scopes' own ceiling
    personal: tuple[Scope, ...]  # those with limits of each end user, address or identical call
    spending: Spending | None  # what their budgets pay for, if any has one


def terms_of(
    identities: Identities,
    routes: Routes,
    checks: dict[str, tuple[Check, ...]],
    scopes: tuple[str, ...],
    name: str,
    targets: tuple[TargetInfo, ...] | None = None,
) -> Terms:
    """All checks; of ceilings the lowest: each scope's, the route's, what its engines can hold.

    `targets` are those that a rule of the route named, None the route's own.
    """
    route = routes.routes[name]
    outputs = [route.output_tokens_max]
    own = [identities.scopes[scope] for scope in scopes]
    outputs += [scope.limits.get("output_tokens") for scope in own]
    context_tokens = lowest(*[scope.limits.get("context_tokens") for scope in own])
    engines = route.targets if targets is None else targets
    contexts = [context_tokens, *(target.context_tokens for target in engines)]
    room = Room(
        output_tokens_max=lowest(*outputs),
        output_tokens_default=route.output_tokens_default,
        context_tokens=lowest(*contexts),
    )
    asked = tuple(check for scope in scopes for check in checks[scope])
    spending = spending_of(own, engines, route.fallback, routes)
    return Terms(asked, room, context_tokens, personal_scopes(own), spending)
