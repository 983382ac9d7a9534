"""A call whose engine was lost before it answered: no failure of the call, if another comes."""

from typing import NamedTuple

from control.gateway import errors
from control.gateway.calls.attempt import Attempt
from control.gateway.errors import Refusal
from control.gateway.routing.deaths import Deaths
from control.gateway.routing.health import GONE, Cause
from control.gateway.waiting import answers


class Outlives(NamedTuple):
    """It waits for what is launched in its engine's place, or for a slot of another."""

    replica_id: int
    cause: Cause
    limit_seconds: float


class Lost:
    """The engine that a call was at. `listed_until`: so long its end may stay untold."""

    def __init__(self, attempt: Attempt, refusal: Refusal, listed_until: float) -> None:
        self._live, self._ask = attempt.live, attempt.ask
        self._refusal = refusal
        self._listed_until = listed_until

    def ends_wait(self, route: str, now: float, retry_seconds: float) -> Refusal | None:
        """While the snapshot has it still as ready. None: it is about to hear of its end."""
        if not self._live.health.out:
            return self._refusal  # it lives: only the connection was lost
        if now < self._listed_until:
            return None
        return answers.unanswered(route, retry_seconds)

    def condemned(self, deaths: Deaths) -> Refusal | None:
        """Another engine has died of the same prompt while this call waited."""
        if not deaths.condemned:
            return None
        try:
            deaths.judge(self._ask)
        except errors.PromptRefused as refusal:
            return refusal
        return None


def is_gone(attempt: Attempt) -> bool:
    """With an engine that is launched anew."""
    return attempt.cause in GONE and attempt.live.is_ours
