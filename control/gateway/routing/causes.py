"""What a failed try says about its engine, and what its caller is told if nobody else helps."""

from control.gateway import errors
from control.gateway.routing.health import Cause

Failure = tuple[errors.Refusal, Cause]

UNSERVED = b'{"detail":"Not Found"}'  # an engine's word for a path that its model does not have
NOT_OURS = frozenset({401, 403, 404})  # another engine answers at this address
STRANGER: Failure = (
    errors.UpstreamFailed("The engine is not the one asked for."),
    Cause.IMPOSTOR,
)


def unserved(endpoint: str) -> errors.Refusal:
    """Engines know only the endpoints of their model's kind."""
    return errors.InvalidValue(f"This model does not serve '{endpoint}'.", param="model")


def cause_of(refusal: errors.Refusal | None) -> Cause:
    match refusal:
        case errors.EngineDied():
            return Cause.DIED
        case errors.EngineBusy():
            return Cause.BUSY
        case errors.UpstreamTimeout():
            return Cause.SILENT
        case _:
            return Cause.ERROR


def failure_of(reason: str, *, sent: bool, resent: bool) -> Failure:
    """Of a connection that was lost, or never made; `resent` is a call that a kept one took."""
    if sent:
        return errors.UpstreamFailed("The engine broke off before it answered."), Cause.BROKE
    refusal = errors.Overloaded("No replica can be reached at the moment.", wait_seconds=2)
    if reason == Cause.IMPOSTOR:
        return refusal, Cause.IMPOSTOR
    # It took the call before, and is gone now: it may have died of it.
    return refusal, Cause.BROKE if resent else Cause.UNREACHABLE
