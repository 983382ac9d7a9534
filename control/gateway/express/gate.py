"""Which calls take the short way: those that are like most others, while nothing is the matter."""

import random
from collections.abc import Callable

from control.gateway.bodies import ordinary
from control.gateway.bodies.wire import estimate_of
from control.gateway.express.asked import Asked
from control.gateway.express.call import ExpressCall
from control.gateway.express.lane import Lane, is_express
from control.gateway.express.streamed import ExpressStream
from control.gateway.http1.request import Request
from control.gateway.http1.server import Connection
from control.gateway.known.footing import Footing
from control.gateway.known.world import REMEMBERED
from control.gateway.routing.candidates import Pick
from control.gateway.routing.rules import Chosen
from control.gateway.shared import Shared
from control.routes.snapshot import Identity

# A header that asks for something; the commonest of them only if its value is this one.
_ODD = frozenset({b"content-encoding", b"x-deadline-ms", b"traceparent"})
_RETRIES, _NO_RETRY = b"x-stainless-retry-count", b"0"


def is_plain(headers: dict[bytes, bytes]) -> bool:
    """Nothing in them asks for anything out of the ordinary."""
    return not is_retry(headers) and _ODD.isdisjoint(headers)


def is_retry(headers: dict[bytes, bytes]) -> bool:
    """The client says that it has sent this before."""
    return headers.get(_RETRIES, _NO_RETRY) != _NO_RETRY


class Gate:
    """It lets a call through or leaves it as it is: then nothing has been taken, nor changed."""

    def __init__(
        self, shared: Shared, footing_of: Callable[[str, Identity], Footing | None]
    ) -> None:
        self._shared = shared
        self._strikes, self._buckets = shared.deaths.strikes, shared.buckets
        self._guards = shared.replicas.guards
        self._footing_of = footing_of
        self._lanes: dict[tuple[int, str], Lane | None] = {}

    def forget(self) -> None:
        """Another snapshot is known."""
        self._lanes = {}

    def begin(self, chat: ordinary.Chat, request: Request, connection: Connection) -> bool:
        """`chat` is the request's body, as it was judged."""
        shared = self._shared
        if not request.head.is_plain:
            return False
        if self._guards.deployments or self._buckets.any_stated or self._strikes.condemned:
            return False  # each call is to be looked at
        key = request.identity.key_id, chat.model
        lane = self._lanes[key] if key in self._lanes else self._new_lane(*key, request.identity)
        if lane is None or request.id[-8:] < lane.sampled_below:
            return False
        text_bytes = ordinary.text_bytes(chat)
        estimate = estimate_of(text_bytes)
        named = chat.max_tokens or None
        if not lane.has_room(estimate, named):
            return False  # to be refused, and told why
        output = lane.output_expected if named is None else min(named, lane.output_expected)
        want = lane.want(request.received_at, estimate, output)
        line = shared.waiting.idle(lane.pool)
        if line is None:
            return False
        policy, kv_tokens = lane.route.policy, want.kv_tokens
        pick = Pick(random.getrandbits(64), policy, None, False, lane.passes, kv_tokens)
        choice = shared.replicas.choose(lane.route, pick)
        if type(choice) is not Chosen:
            return False
        begin = ExpressStream if chat.stream else ExpressCall
        call = begin(shared, lane, connection, want, choice)
        if not shared.counters.spend(lane.bundle, estimate, output):
            return False
        most = lane.output_most if named is None else named
        asked = Asked(request.body, chat, text_bytes, output, most)
        connection.call = call
        call.dispatch(asked, line)
        return True

    def _new_lane(self, key_id: int, model: str, identity: Identity) -> Lane | None:
        """None if something is to be looked at in each call."""
        footing, shared, lane = self._footing_of(model, identity), self._shared, None
        if footing and is_express(footing, identity):
            bundle = shared.counters.exchange.bundle_of(footing.terms.checks)
            lane = Lane(footing, identity, bundle, shared.counted, shared.limits)
        if len(self._lanes) >= REMEMBERED:
            self._lanes.clear()
        self._lanes[key_id, model] = lane
        return lane
