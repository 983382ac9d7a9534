"""What a tenant reads when its call does not get, or does not keep, a place in the queue."""

from control.gateway import errors
from control.gateway.waiting.rules import Crowded, TooLate

_WAIT_SECONDS = 2.0  # where nobody knows better


def refusal_of(decision: TooLate | Crowded, route: str) -> errors.Overloaded:
    """To be tried again when such a call is expected to start, not when it surely would."""
    why, wait = f"All replicas of '{route}' are busy", _wait(decision.expected_seconds)
    if isinstance(decision, TooLate):
        return errors.Overloaded(
            f"{why}: this call might start only in {decision.start_seconds:.1f} s and can wait"
            f" {max(decision.limit_seconds, 0):.1f} s. Please try again later.",
            wait_seconds=wait,
        )
    return errors.Overloaded(
        f"{why} and too many calls wait for them. Please try again shortly.", wait_seconds=wait
    )


def busy(route: str, expected_seconds: float | None) -> errors.Overloaded:
    """For a call that waited in vain, or had to leave to one with more right."""
    return errors.Overloaded(
        f"All replicas of '{route}' are busy. Please try again shortly.",
        wait_seconds=_wait(expected_seconds),
    )


def unanswered(route: str, retry_seconds: float) -> errors.Overloaded:
    text = f"No replica of '{route}' answers at the moment."
    return errors.Overloaded(text, wait_seconds=retry_seconds)


def deadline_passed() -> errors.UpstreamTimeout:
    return errors.UpstreamTimeout("The call's deadline passed before it was answered.")


def restarted() -> errors.Overloaded:
    """By a gateway that stops: another, or the next one, takes the call."""
    return errors.Overloaded("The gateway is being restarted.", wait_seconds=1)


def _wait(seconds: float | None) -> float:
    """At least a second: sooner is no different. errors.headers_of keeps it below a minute."""
    return _WAIT_SECONDS if seconds is None else max(seconds, 1.0)
