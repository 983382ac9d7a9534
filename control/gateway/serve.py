"""The request path, top to bottom: who calls, what is asked, who may, then a call begins."""

import functools
import logging
from urllib.parse import unquote

import msgspec

from control.gateway import context, encoding, errors, listing, media, ordinary, wire
from control.gateway.admission import rules
from control.gateway.admission.rules import Hold
from control.gateway.calls.call import Call
from control.gateway.calls.moderated import ModeratedCall
from control.gateway.dialects.refusals import worded
from control.gateway.endpoints import INFERENCE, MODELS, OPEN, RELAYED, allowed_methods
from control.gateway.errors import Headers, Refusal
from control.gateway.footing import Footing, buyer_of, footing_of
from control.gateway.http1.request import Request
from control.gateway.http1.server import Connection
from control.gateway.identity import client_of, identify, judge_endpoint
from control.gateway.ids import call_id
from control.gateway.routing.picks import route_for
from control.gateway.shared import Shared
from control.gateway.terms import Terms, terms_of
from control.gateway.world import REMEMBERED, World
from control.routes.snapshot import Identities, Identity, Replicas, RouteInfo, Routes

log = logging.getLogger(__name__)


class Gateway:
    """The app behind every tenant connection of one process."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.draining = False
        self._world: World | None = None
        self._confirmed_at: float | None = None  # when what we know was last known to be current
        self._good_until = 0.0
        self._replicas_known = False

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

    def now(self) -> float:
        return self.shared.clock.now()

    def worded(self, request: Request, refusal: Refusal) -> tuple[int, bytes, Headers]:
        return worded(request.path, refusal, request.id)

    def new_id(self) -> str:
        return call_id(self.shared.clock.wall())

    def judge_head(self, request: Request) -> None:
        """Before the body is read: nobody uploads megabytes to learn that a key is wrong."""
        cleared = request.head.cleared
        if cleared and self._is_current() and cleared[0] is self._world.stamp:
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
        try:
            world = self._known()
            request.identity = self._identify(request, world)
            endpoint = INFERENCE.get(request.path) or RELAYED.get(request.path, "models")
            judge_endpoint(request.identity, endpoint)
            if request.method == "POST":
                encoding.judge_head(request)
        except Refusal as refusal:
            self._count_refused(request, refusal)
            raise
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
            self._serve(request, connection)
        except Refusal as refusal:
            self._count_refused(request, refusal)
            connection.refuse(refusal)
        except Exception:
            log.exception("request %s failed in the gateway", request.id)
            refusal = errors.InternalError("The gateway failed on this request.")
            if connection.call:
                connection.call.refuse(refusal)  # so that what it holds is given back
            elif connection.state == "busy":
                connection.refuse(refusal)

    # --- the path ---

    def _serve(self, request: Request, connection: Connection) -> None:
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
        elif path in INFERENCE:
            self._begin_call(INFERENCE[path], request, connection)
        else:
            self.shared.web.relay(request, request.identity, connection)

    def _begin_call(self, endpoint: str, request: Request, connection: Connection) -> None:
        shared = self.shared
        if not shared.spool.has_room:
            raise self._backlog_full()
        ask = self._read(endpoint, request)
        footing = self._footing(ask, request)
        route, terms = footing.route, footing.terms
        ask.salt = footing.salt
        if ask.links:
            media.judge(ask.links, route.media_hosts)
        if shared.deaths.condemned:
            shared.deaths.judge(ask)
        context.judge(ask, terms.context_tokens)
        max_tokens = wire.output_tokens(ask, terms.room)
        hold = self._hold(ask, route, terms, max_tokens)
        if terms.personal:
            hold = shared.personal.narrowed(hold, terms.personal, request, ask)
        if terms.spending:
            buyer = buyer_of(request.identity, route, ask.service_tier)
            hold, max_tokens = shared.money.staked(hold, terms.spending, buyer, ask, max_tokens)
        if request.headers.get(b"x-stainless-retry-count", b"0") != b"0":
            shared.tally.add("retries_total")
        begin = ModeratedCall if route.moderation else Call
        connection.call = call = begin(shared, connection, ask, footing, hold)
        call.start(max_tokens)

    def _read(self, endpoint: str, request: Request) -> wire.Ask:
        limits = self.shared.limits
        body = encoding.body_of(request, limits.decoded_bytes)
        if endpoint == ordinary.ENDPOINT and (ask := ordinary.read(body, depth_max=limits.depth)):
            return ask
        more = functools.partial(self._members_of, request.identity)
        return wire.parse(endpoint, body, depth_max=limits.depth, more=more)

    def _footing(self, ask: wire.Ask, request: Request) -> Footing:
        world, identity = self._known(), request.identity
        if footing := world.footings.get((identity.key_id, ask.model)):
            return footing
        route, ruled = self._route(ask.model, identity), None
        if route.rules:
            route = route_for(request, route, ask, self.shared.clock.wall())
            ruled = route.targets
        terms = world.terms(identity.scopes, route.name, ruled)
        footing = footing_of(identity, route, terms, self.shared.limits)
        if ruled is None:
            world.remember(identity.key_id, ask.model, footing)
        return footing

    def _hold(self, ask: wire.Ask, route: RouteInfo, terms: Terms, max_tokens: int | None) -> Hold:
        """What it sets aside; raises if that is too much for engines that lately had too little."""
        expected = route.output_tokens_default or self.shared.limits.output_tokens_expected
        output = rules.expected_output(ask.choices, max_tokens, expected)
        estimate, guards = ask.input_estimate, self.shared.replicas.guards
        if guards.deployments:
            guards.judge(route, estimate + output, self.shared.clock.wall())
        return Hold(terms.checks, estimate, output)

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
            )
        return route

    def _models(self, path: str, identity: Identity) -> bytes:
        name = path.removeprefix(MODELS).removeprefix("/")
        if name:
            return listing.one(self._route(unquote(name), identity))
        return listing.all_of(self._known().routes.routes, identity)

    def _ready(self, connection: Connection) -> None:
        """Green when a route can be served; no names, since nobody has shown a key."""
        age, shared = self.snapshot_age_seconds(), self.shared
        routes = self._world.routes.routes.values() if self._world else ()
        ready = sum(shared.replicas.can_serve(route) for route in routes)
        too_old = age is None or age > shared.limits.snapshot_age_seconds_max
        good = ready > 0 and not too_old and not self.draining and shared.spool.has_room
        body = {
            "ready": good,
            "draining": self.draining,
            "routes": len(routes),
            "routes_ready": ready,
            "snapshot_age_seconds": age,
            "spool": "open" if shared.spool.has_room else "full",
            "counters": "shared" if shared.counters.shared else "local",
            "budgets": "away" if shared.money.is_away else "known",
        }
        connection.respond(200 if good else 503, msgspec.json.encode(body))

    # --- inside ---

    def _backlog_full(self) -> Refusal:
        wait = self.shared.limits.usage_backlog_retry_seconds
        text = "Usage cannot be recorded until the database is back. Please try again later."
        return errors.UsageBacklog(text, wait_seconds=wait)

    def _is_current(self) -> bool:
        return self.shared.clock.now() < self._good_until and self._replicas_known

    def _known(self) -> World:
        if self._world and self._is_current():
            return self._world
        age, limits = self.snapshot_age_seconds(), self.shared.limits
        if age is None:
            raise errors.NotReady("This gateway knows no tenants yet.", wait_seconds=2)
        if age > limits.snapshot_age_seconds_max:
            raise errors.NotReady("What this gateway knows is too old to act on.", wait_seconds=30)
        return self._world

    def _count_refused(self, request: Request, refusal: Refusal) -> None:
        self.shared.count_refused(request.identity, refusal.code or "invalid_request")


def _may(identity: Identity, route: str) -> bool:
    return identity.routes is None or route in identity.routes
