"""How many tokens a try used, where the engine did not say it."""

from control.gateway.bodies.wire import Ask
from control.gateway.routing.live import Live
from control.gateway.streams.chunks import Usage
from control.states import Outcome, TokensSource

Tokens = tuple[Usage, TokensSource]
NO_TOKENS = Usage(0, 0, 0, 0)
NO_WORK = (Outcome.UPSTREAM_ERROR, Outcome.REJECTED)


def estimated(ask: Ask, live: Live, parts: int) -> Tokens:
    """What came, and what the prompt may have been."""
    prompt = live.density.tokens(ask.text_bytes, ask.input_estimate)
    return Usage(prompt, 0, parts, 0), TokensSource.ESTIMATED
