"""What a call that an engine worked on counts for: in its limits, and in its tenant's service."""

from control.gateway.admission.rules import Used
from control.gateway.calls.attempt import Attempt
from control.gateway.waiting.rules import cost
from control.states import Outcome

_NOTHING = Used()
# An engine's work, asked for and not failed.
_WORKED = (Outcome.COMPLETE, Outcome.INCOMPLETE, Outcome.CLIENT_CLOSED)


def used_of(attempt: Attempt | None, outcome: Outcome, first_token_at: float | None) -> Used:
    """Nothing, if it failed before the tenant saw a token of it."""
    if attempt is None or first_token_at is None and outcome not in _WORKED:
        return _NOTHING
    usage, _ = attempt.tokens(outcome)
    return Used(usage.input, usage.output)


def cost_of(attempt: Attempt, outcome: Outcome) -> float:
    usage, _ = attempt.tokens(outcome)
    return cost(usage.input, usage.cached, usage.output)
