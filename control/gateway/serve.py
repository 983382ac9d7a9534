"""The request path, top to bottom: who calls, what is asked, who may, then a call begins."""

import functools
import logging
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from control.gateway import errors, holds, listing
from control.gateway.admission import rules
from control.gateway.bodies import encoding, ordinary, wire
from control.gateway.bodies.dialects.refusals import worded
from control.gateway.calls.call import Call
from control.gateway.calls.moderated import ModeratedCall
from control.gateway.endpoints import INFERENCE, MODELS, OPEN, RELAYED, allowed_methods
from control.gateway.errors import Headers, Refusal
from control.gateway.express.gate import Gate, is_plain, is_retry
from control.gateway.http1.request import Request
from control.gateway.http1.server import Connection
from control.gateway.ids import call_id
from control.gateway.known.footing import Footing, footing_of
from control.gateway.known.identity import client_of, identify, judge_endpoint
from control.gateway.known.terms import terms_of
from control.gateway.known.world import REMEMBERED, World
from control.gateway.readiness import readiness
from control.gateway.routing.picks import route_for
from control.gateway.shared import Shared
from control.gateway.turned_away import turn_away
from control.routes.snapshot import Identities, Identity, Replicas, RouteInfo, Routes

log = logging.getLogger(__name__)


class NoRoute(NamedTuple):
    name: str
    why: str


class Gateway:
    """The app behind every tenant connection of one process."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.now = shared.clock.now
        self.draining = False
        self._world: World | None = None
        self._confirmed_at: float | None = None  # when what we know was last known to be current
        self._good_until = 0.0
        self._replicas_known = False
        self._gate = Gate(shared, self._lasting_footing)

    # --- what it knows ---

    def know(self, identities: Identities, routes: Routes) -> None:
        checks = {
            scope.id: rules.checks_of(scope.id, scope.limits)
            for scope in identities.scopes.values()
        }
        if self.shared.starts.know(routes.deployments.values()):
            self.shared.waiting.reconsider()
        self.shared.buckets.know(routes)
        self.shared.replicas.guard(routes.deployments.values(), self.shared.clock.wall())
        self.shared.judges.know(routes)
        self.shared.money.know(identities.scopes.values())
        self._gate.forget()
        terms = functools.partial(terms_of, identities, routes, checks)
        self._world = World(
            identities, routes, functools.lru_cache(REMEMBERED)(terms), {}, object()
        )

    def know_replicas(self, replicas: Replicas, keys: dict[int, str]) -> None:
        self._replicas_known = True
        self.shared.replicas.swap(replicas, keys)
        self.shared.waiting.advance()

    def confirm(self, at: float) -> None:
        """The database said that nothing newer exists."""
        self._confirmed_at = at
        self._good_until = at + self.shared.limits.snapshot_age_seconds_max

    def snapshot_age_seconds(self) -> float | None:
        """None while it knows nothing at all."""
        if self._world is None or not self._replicas_known or self._confirmed_at is None:
            return None
        return max(self.shared.clock.now() - self._confirmed_at, 0.0)

    # --- what a connection asks of it ---

    def worded(self, request: Request, refusal: Refusal) -> tuple[int, bytes, Headers]:
        return worded(request.path, refusal, request.id)

    def new_id(self) -> str:
        return call_id(self.shared.clock.wall())

    def turn_away(self, request: Request, refusal: Refusal) -> None:
        turn_away(self.shared, request, refusal)

    def judge_head(self, request: Request) -> None:
        """Before the body is read: nobody uploads megabytes to learn that a key is wrong."""
        cleared = request.head.cleared
        # Only of a request that came whole, hence just now.
        if cleared and request.received_at < self._good_until and cleared[0] is self._world.stamp:
            _, request.identity, request.address = cleared
        else:
            self._judge_new_head(request)

    def _judge_new_head(self, request: Request) -> None:
        allowed = allowed_methods(request.path)
        if allowed is None:
            raise errors.NotFound(f"Unknown path: {request.method} {request.path[:100]}.")
        if request.method not in allowed:
            raise errors.WrongMethod(
                f"{request.method} is not allowed on {request.path[:100]}.",
                allowed=", ".join(allowed),
            )
        if request.path in OPEN or request.method == "OPTIONS":
            return
        world = self._known()
        request.identity = self._identify(request, world)
        endpoint = INFERENCE.get(request.path) or RELAYED.get(request.path, "models")
        judge_endpoint(request.identity, endpoint)
        if request.method == "POST":
            encoding.judge_head(request)
            request.head.is_plain = is_plain(request.headers)
        if request.identity.expires_at is None:
            # By the same words from the same client, until something else is known of keys.
            request.head.cleared = world.stamp, request.identity, request.address

    def _identify(self, request: Request, world: World) -> Identity:
        if proxies := self.shared.limits.trusted_proxies:
            forwarded = request.headers.get(b"x-forwarded-for")
            request.address = client_of(request.address, forwarded, proxies)
        try:
            return identify(request, world.identities, self.shared.clock.wall())
        except (errors.NoKey, errors.UnknownKey):
            wait = self.shared.strangers.wait_seconds(request.address)
            if not wait:
                raise
        raise errors.RateLimited(
            "Too many requests without a valid API key came from this address.",
            wait_seconds=wait,
        )

    def serve(self, request: Request, connection: Connection) -> None:
        try:
            endpoint = INFERENCE.get(request.path)
            if endpoint and request.method == "POST":
                self._begin_call(endpoint, request, connection)
            else:
                self._answer(request, connection)
        except Refusal as refusal:
            self.turn_away(request, refusal)
            connection.refuse(refusal)
        except Exception:
            log.exception("request %s failed in the gateway", request.id)
            refusal = errors.InternalError("The gateway failed on this request.")
            if connection.call:
                connection.call.refuse(refusal)  # so that what it holds is given back
            elif connection.state == "busy":
                self.turn_away(request, refusal)
                connection.refuse(refusal)

    # --- the path ---

    def _answer(self, request: Request, connection: Connection) -> None:
        path = request.path
        if request.method == "OPTIONS":
            allow = ", ".join(allowed_methods(path)).encode()
            connection.respond(200, b"", ((b"allow", allow),))
        elif path == "/health":
            connection.respond(200, b'{"status":"ok"}')
        elif path == "/ready":
            self._ready(connection)
        elif path.startswith(MODELS):
            connection.respond(200, self._models(path, request.identity))
        else:
            self.shared.web.relay(request, request.identity, connection)

    def _begin_call(self, endpoint: str, request: Request, connection: Connection) -> None:
        limits = self.shared.limits
        if not request.head.is_plain and is_retry(request.headers):
            self.shared.tally.add("retries_total")  # refused or not: all of them are a storm's
        if not self.shared.spool.has_room:
            raise self._backlog_full()
        body, chat = request.body, None
        if not request.head.is_plain:
            body = encoding.body_of(request, limits.decoded_bytes)
        if endpoint == ordinary.ENDPOINT:
            chat = ordinary.judged(body, depth_max=limits.depth)
        if chat is None:
            more = functools.partial(self._members_of, request.identity)
            ask = wire.parse(endpoint, body, depth_max=limits.depth, more=more)
        elif self._gate.begin(chat, request, connection):
            return
        else:
            ask = ordinary.ask_of(chat, body)
        self._admit(ask, request, connection)

    def _admit(self, ask: wire.Ask, request: Request, connection: Connection) -> None:
        shared, footing = self.shared, self._footing(ask, request)
        ask.salt = footing.salt
        begin = ModeratedCall if footing.route.moderation else Call
        try:
            hold, max_tokens = holds.judged(shared, ask, footing, request)
            connection.call = call = begin(shared, connection, ask, footing, hold)
        except Refusal as refusal:
            turn_away(shared, request, refusal, footing.route)
            return connection.refuse(refusal)
        return call.start(max_tokens)

    def _footing(self, ask: wire.Ask, request: Request) -> Footing:
        identity = request.identity
        if footing := self._lasting_footing(ask.model, identity):
            return footing
        route = route_for(request, self._route(ask.model, identity), ask, self.shared.clock.wall())
        terms = self._known().terms(identity.scopes, route.name, route.targets)
        return footing_of(identity, route, terms, self.shared.limits)

    def _lasting_footing(self, name: str, identity: Identity) -> Footing | None:
        """None of a route with rules, on which each call has its own."""
        world = self._known()
        if footing := world.footings.get((identity.key_id, name)):
            return footing
        route = self._route(name, identity)
        if route.rules:
            return None
        terms = world.terms(identity.scopes, route.name, None)
        footing = footing_of(identity, route, terms, self.shared.limits)
        world.remember(identity.key_id, name, footing)
        return footing

    def _members_of(self, identity: Identity, name: str) -> tuple[str, ...]:
        """None of a route that this key may not call: that it exists is not for it to learn."""
        route = self._known().routes.routes.get(name)
        return route.members if route and _may(identity, name) else ()

    def _route(self, name: str, identity: Identity) -> RouteInfo:
        """An unknown route and one this key may not call look the same from outside."""
        route = self._known().routes.routes.get(name)
        if route is None or not _may(identity, name):
            raise errors.ModelNotFound(
                f"The model '{name[:96]}' does not exist or you do not have access to it.",
                param="model",
                why=NoRoute(name[:96], "this key may not call it" if route else "unknown"),
            )
        return route

    def _models(self, path: str, identity: Identity) -> bytes:
        name = path.removeprefix(MODELS).removeprefix("/")
        if name:
            return listing.one(self._route(unquote(name), identity))
        return listing.all_of(self._known().routes.routes, identity)

    def _ready(self, connection: Connection) -> None:
        routes = self._world.routes.routes.values() if self._world else ()
        age = self.snapshot_age_seconds()
        told = readiness(self.shared, routes, age, draining=self.draining)
        connection.respond(200 if told["ready"] else 503, msgspec.json.encode(told))

    # --- inside ---

    def _backlog_full(self) -> Refusal:
        wait = self.shared.limits.usage_backlog_retry_seconds
        text = "Usage cannot be recorded until the database is back. Please try again later."
        return errors.UsageBacklog(text, wait_seconds=wait)

    def _known(self) -> World:
        if self._world and self._replicas_known and self.now() < self._good_until:
            return self._world
        age, limits = self.snapshot_age_seconds(), self.shared.limits
        if age is None:
            raise errors.NotReady("This gateway knows no tenants yet.", wait_seconds=2)
        if age > limits.snapshot_age_seconds_max:
            raise errors.NotReady("What this gateway knows is too old to act on.", wait_seconds=30)
        return self._world


def _may(identity: Identity, route: str) -> bool:
    return identity.routes is None or route in identity.routes
