"""How urgent a call is served, for its answer to say."""

from control.gateway.bodies.wire import Ask
from control.gateway.waiting.rules import TIER_OF
from control.states import Priority


def tell_tier(ask: Ask, priority: Priority) -> None:
    """In the words of the API that was called, if it has some."""
    if ask.dialect:
        ask.dialect.serve(priority)
    elif ask.service_tier:
        ask.tier = TIER_OF[priority]
