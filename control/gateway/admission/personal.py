"""Limits within a scope's ceiling: of each end user, each client address, each identical call."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from control.gateway.admission.rules import PERSONAL, Check, Hold, Slots, per_minute_of
from control.gateway.admission.strangers import network_of
from control.gateway.http1.request import Request
from control.routes.snapshot import Scope

_USER_LIMITS, _ADDRESS_LIMIT, _IDENTICAL = PERSONAL[:2], PERSONAL[2], PERSONAL[3]
_DIGEST_BYTES = 16


class Asked(Protocol):
    """What was judged of a call's body."""

    endpoint: str
    model: str
    max_tokens: int | None
    fields: dict[str, Any]


class Personal:
    """Names and addresses are hashed under a secret before anything is kept of them."""

    def __init__(self, secret: str) -> None:
        self._key = secret.encode()[:64]

    def narrowed(self, hold: Hold, scopes: tuple[Scope, ...], request: Request, ask: Asked) -> Hold:
        """The call's hold with these limits too. Who names no user has no user's limits."""
        user = ask.fields.get("user")
        checks: list[Check] = []
        for scope in scopes:
            limits = scope.limits
            if user:
                who = self._name("u", scope, user)
                named = [limit for limit in _USER_LIMITS if limits.get(limit)]
                checks += [per_minute_of(who, limit, limits[limit]) for limit in named]
            if limits.get(_ADDRESS_LIMIT):
                who = self._name("a", scope, network_of(request.address))
                checks.append(per_minute_of(who, _ADDRESS_LIMIT, limits[_ADDRESS_LIMIT]))
        identical = [scope.limits[_IDENTICAL] for scope in scopes if _IDENTICAL in scope.limits]
        if identical:
            who = f"k:{request.identity.key_id}:{self._fingerprint(ask)}"
            checks.append(Slots(who, _IDENTICAL, min(identical)))
        return hold._replace(checks=hold.checks + tuple(checks), personal=bool(checks))

    def _name(self, kind: str, scope: Scope, who: str) -> str:
        return f"{kind}:{scope.id}:{self._hash(who.encode())}"

    def _fingerprint(self, ask: Asked) -> str:
        """Of the body as it was judged: the order of its members and its spacing say nothing."""
        body = (ask.endpoint, ask.model, ask.max_tokens, ask.fields)
        return self._hash(msgspec.json.encode(body, order="sorted"))

    def _hash(self, data: bytes) -> str:
        return blake2b(data, digest_size=_DIGEST_BYTES, key=self._key).hexdigest()


def personal_scopes(scopes: Iterable[Scope]) -> tuple[Scope, ...]:
    """Those that name such a limit: usually none."""
    return tuple(scope for scope in scopes if any(limit in scope.limits for limit in PERSONAL))
