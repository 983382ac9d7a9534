"""The end of a call: what it held is given back, whatever fails on the way."""

from control.gateway.admission.holding import Holding
from control.gateway.calls.attempt import Attempt
from control.gateway.calls.bill import NOTHING, cost_of, used_of
from control.gateway.calls.journal import Ending, Journal
from control.gateway.calls.patience import Patience
from control.gateway.shared import Shared
from control.states import Outcome


def settle(
    shared: Shared,
    patience: Patience,
    holding: Holding,
    journal: Journal,
    attempt: Attempt | None,
    ending: Ending,
) -> None:
    """Once. `attempt` is its last, if it came to one."""
    used, cost = NOTHING, 0.0
    shared.waiting.leave(patience)
    try:
        if attempt:
            attempt.abort()
            usage, _ = tokens = attempt.tokens(ending.outcome)
            used, cost = used_of(usage, ending.outcome, ending.first_token_at), cost_of(usage)
            if shared.replicas.guards.deployments and ending.outcome is Outcome.COMPLETE:
                deployment = attempt.live.info.deployment
                shared.replicas.guards.served(deployment, usage.input + usage.output)
            close = journal.closed(attempt, ending, tokens)
            holding.charge(close, attempt.live.info.model)
    finally:
        shared.waiting.settled(patience, cost)
        if attempt:
            attempt.part()
            patience.part()
        try:
            holding.settle(used)
        finally:
            shared.waiting.advance()
