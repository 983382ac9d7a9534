"""What a call that an engine worked on counts for: in its limits, and in its tenant's service."""

from control.gateway.admission.rules import Used
from control.gateway.streams.chunks import Usage
from control.gateway.waiting.rules import cost
from control.states import Outcome

NOTHING = Used()
# An engine's work, asked for and not failed.
_WORKED = (Outcome.COMPLETE, Outcome.INCOMPLETE, Outcome.CLIENT_CLOSED)


def used_of(usage: Usage, outcome: Outcome, first_token_at: float | None) -> Used:
    """Nothing, if it failed before the tenant saw a token of it."""
    if first_token_at is None and outcome not in _WORKED:
        return NOTHING
    return Used(usage.input, usage.output)


def cost_of(usage: Usage) -> float:
    return cost(usage.input, usage.cached, usage.output)
