"""What a call may ask of its route, and what it sets aside for that; a refusal is raised."""

from control.gateway.admission import rules
from control.gateway.admission.rules import Hold
from control.gateway.bodies import ceilings, context, media, wire
from control.gateway.http1.request import Request
from control.gateway.known.footing import Footing, buyer_of
from control.gateway.shared import Shared


def judged(
    shared: Shared, ask: wire.Ask, footing: Footing, request: Request
) -> tuple[Hold, int | None]:
    """Its hold, and the max_tokens to send."""
    route, terms = footing.route, footing.terms
    if ask.links:
        media.judge(ask.links, route.media_hosts)
    if shared.deaths.condemned:
        shared.deaths.judge(ask)
    context.judge(ask, terms.context_tokens)
    max_tokens = ceilings.output_tokens(ask, terms.room)
    hold = _hold(shared, ask, footing, max_tokens)
    if terms.personal:
        hold = shared.personal.narrowed(hold, terms.personal, request, ask)
    if terms.spending:
        buyer = buyer_of(request.identity, route, ask.service_tier)
        return shared.money.staked(hold, terms.spending, buyer, ask, max_tokens)
    return hold, max_tokens


def _hold(shared: Shared, ask: wire.Ask, footing: Footing, max_tokens: int | None) -> Hold:
    """Raises if that is too much for engines that lately had too little."""
    route = footing.route
    expected = route.output_tokens_default or shared.limits.output_tokens_expected
    output = rules.expected_output(ask.choices, max_tokens, expected)
    estimate, guards = ask.input_estimate, shared.replicas.guards
    if guards.deployments:
        guards.judge(route, estimate + output, shared.clock.wall())
    return Hold(footing.terms.checks, estimate, output)
