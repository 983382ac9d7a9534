"""What ordinary calls of one key on one route have in common."""

from functools import partial

from control.gateway.admission.bundles import Bundle
from control.gateway.calls.delivery import STREAM_HEADERS
from control.gateway.express.stream_way import stream_way_of
from control.gateway.express.ways import Ways
from control.gateway.express.whole_way import whole_way_of
from control.gateway.http1 import answers
from control.gateway.known.footing import Footing
from control.gateway.limits import Limits
from control.gateway.recording.counted import Counted
from control.gateway.recording.tracing import sampled_below
from control.gateway.routing.picks import KEYED
from control.gateway.waiting.rules import Want, served_priority
from control.routes.snapshot import Identity
from control.states import Priority


class Lane:
    """Of one key on one route, until the snapshot changes."""

    __slots__ = (
        "answer", "bundle", "context_tokens", "footing", "identity", "kv_input_most", "names",
        "output_expected", "output_most", "output_named_most", "own_lines", "passes", "pool",
        "priority", "route", "sampled_below", "silent_seconds", "stream_answer", "stream_ways",
        "tenant", "total_seconds", "waiting_seconds", "whole_ways",
    )  # fmt: skip

    def __init__(
        self,
        footing: Footing,
        identity: Identity,
        bundle: Bundle,
        counted: Counted,
        limits: Limits,
    ) -> None:
        route, terms = footing.route, footing.terms
        self.footing = footing
        self.identity = identity
        self.route = route
        self.bundle = bundle
        self.priority = priority_of(footing, identity)
        self.tenant = identity.tenant_id
        self.passes = self.priority is Priority.INTERACTIVE
        self.pool = footing.pool
        self.waiting_seconds = footing.waiting_seconds
        self.total_seconds = footing.total_seconds
        self.context_tokens = terms.context_tokens
        self.kv_input_most = footing.prompt_tokens_most
        self.output_expected = route.output_tokens_default or limits.output_tokens_expected
        self.output_most = terms.room.most  # of a call that names no number
        self.output_named_most = terms.room.named_most
        self.sampled_below = sampled_below(route.sample)
        self.names = counted.names(route.name, identity.tenant, self.priority)
        self.own_lines = b"x-weir-priority: %b\r\n" % self.priority.encode()
        self.answer = answers.good(self.own_lines)
        self.stream_answer = answers.good_stream(answers.lines(STREAM_HEADERS), self.own_lines)
        after = route.commit_after_seconds
        self.silent_seconds = self.waiting_seconds if after is None else after  # without a head
        whose = (footing, identity, self.priority)
        self.whole_ways = Ways(partial(whole_way_of, *whose))
        self.stream_ways = Ways(partial(stream_way_of, *whose))

    def has_room(self, input_tokens: int, named: int | None) -> bool:
        """`named`: the tokens that it may make, if it names a number."""
        most = self.output_named_most
        if named is not None and most is not None and named > most:
            return False
        most = self.context_tokens
        return most is None or input_tokens + (named or 1) <= most

    def want(self, received_at: float, input_tokens: int, output_tokens: int) -> Want:
        most = self.kv_input_most
        held = input_tokens if most is None or input_tokens < most else most
        return Want(
            *(self.pool, self.priority, self.tenant, input_tokens),
            *(received_at + self.total_seconds, self.waiting_seconds, held + output_tokens),
        )


def priority_of(footing: Footing, identity: Identity) -> Priority:
    """Of a call that names no tier."""
    return served_priority(identity.priority, footing.route.priority, None)


def is_express(footing: Footing, identity: Identity) -> bool:
    """Nothing is to be judged, paid from a budget, looked for or cut out of these calls."""
    route, terms = footing.route, footing.terms
    if route.rules or route.moderation or route.stop or route.policy in KEYED:
        return False
    if terms.personal or terms.spending:
        return False
    return priority_of(footing, identity) is not Priority.BATCH  # which may have to yield
