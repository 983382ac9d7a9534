"""What a tenant reads when a limit refused its call: which scope, which limit, how long to wait."""

from control.gateway import errors
from control.gateway.admission.counters import Refused
from control.gateway.admission.rules import Slots, duration_text
from control.gateway.errors import Headers, Refusal

_SCOPES = {"t": "tenant", "p": "project", "k": "key"}
_LIMITS = {
    "requests_per_second": "requests per second",
    "requests_per_minute": "requests per minute (RPM)",
    "concurrent_calls": "calls at once",
}


def refusal_of(refused: Refused, route: str) -> Refusal:
    check = refused.check
    scope = _SCOPES[check.scope[0]]
    if isinstance(check, Slots):
        return errors.TooManyCalls(
            f"Limit of this {scope} reached for '{route}' on calls at once: Limit {check.most}."
            " Please try again when one of them has ended.",
            wait_seconds=refused.wait_seconds,
        )
    reached = (
        f"Rate limit of this {scope} reached for '{route}' on {_LIMITS[check.limit]}:"
        f" Limit {check.units}."
    )
    if refused.wait_seconds is None:
        return errors.NeverFits(reached)
    wait = duration_text(max(refused.wait_seconds, 0.001))
    return errors.RateLimited(
        f"{reached} Please try again in {wait}.", wait_seconds=refused.wait_seconds
    )


def headers_of(refused: Refused) -> Headers:
    check, wait = refused.check, refused.wait_seconds
    if isinstance(check, Slots) or check.limit != "requests_per_minute":
        return ()
    return ratelimit_headers(check.units, 0, (wait or 0) + check.gcra.period_seconds * check.units)


def ratelimit_headers(limit: int, remaining: int, reset_seconds: float) -> Headers:
    return (
        (b"x-ratelimit-limit-requests", b"%d" % limit),
        (b"x-ratelimit-remaining-requests", b"%d" % remaining),
        (b"x-ratelimit-reset-requests", duration_text(reset_seconds).encode()),
    )
