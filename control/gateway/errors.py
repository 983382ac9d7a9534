"""Every refusal of the gateway as a type, and what it looks like on the wire."""

import math
from typing import ClassVar

import msgspec

Headers = tuple[tuple[bytes, bytes], ...]


class Refusal(Exception):
    """A reason not to serve a call: status, type and code are the class's, the words its own."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "server_error"
    code: ClassVar[str | None] = "internal_error"
    retry: ClassVar[bool | None] = None  # x-should-retry; None leaves it to the status

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        wait_seconds: float | None = None,
        why: object | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.wait_seconds = wait_seconds
        self.why = why  # the decision with its figures, for operators alone


class InternalError(Refusal):
    pass


class _Invalid(Refusal):
    status = 400
    type = "invalid_request_error"
    code = None


class BadRequest(_Invalid):
    """Not HTTP or not JSON as we understand it."""


class MissingParameter(_Invalid):
    code = "missing_required_parameter"


class InvalidType(_Invalid):
    code = "invalid_type"


class InvalidValue(_Invalid):
    code = "invalid_value"


class UnknownParameter(_Invalid):
    code = "unknown_parameter"


class ContextTooLong(_Invalid):
    code = "context_length_exceeded"


class PromptRefused(_Invalid):
    """Engines die of it; sending it again would only find the next one."""

    code = "prompt_refused"
    retry = False


class ContentFiltered(_Invalid):
    """By the judge that the route names."""

    code = "content_filter"


class NoKey(_Invalid):
    status = 401


class UnknownKey(_Invalid):
    status = 401
    code = "invalid_api_key"


class AddressNotAllowed(_Invalid):
    status = 401
    code = "ip_not_authorized"


class PermissionDenied(Refusal):
    status = 403
    type = "permission_error"
    code = "permission_denied"


class ModelNotFound(_Invalid):
    status = 404
    code = "model_not_found"


class NotFound(_Invalid):
    status = 404


class WrongMethod(_Invalid):
    status = 405
    code = "method_not_allowed"

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class RequestTimeout(_Invalid):
    status = 408
    code = "request_timeout"


class RequestTooLarge(_Invalid):
    status = 413
    code = "request_too_large"


class UnsupportedEncoding(_Invalid):
    status = 415
    code = "unsupported_encoding"


class HeadersTooLarge(_Invalid):
    status = 431
    code = "headers_too_large"


class RateLimited(Refusal):
    status = 429
    type = "requests"
    code = "rate_limit_exceeded"


class TooManyCalls(Refusal):
    status = 429
    type = "rate_limit_error"
    code = "concurrency_limit_exceeded"


class SlowDown(Refusal):
    """More is asked of a route than its engines can do, by all who ask together."""

    status = 429
    type = "rate_limit_error"
    code = "slow_down"


class TokensLimited(Refusal):
    status = 429
    type = "tokens"
    code = "rate_limit_exceeded"


class NeverFits(Refusal):
    """More than the limit holds when it is full: waiting does not help."""

    status = 429
    type = "tokens"
    code = "rate_limit_exceeded"
    retry = False


class BudgetSpent(Refusal):
    """Nothing that a client does brings it back before it is raised, or its period ends."""

    status = 429
    type = "insufficient_quota"
    code = "insufficient_quota"
    retry = False


class Unpriced(PermissionDenied):
    code = "model_not_priced"


class UpstreamFailed(Refusal):
    status = 502
    code = "upstream_error"


class EngineDied(UpstreamFailed):
    """Nothing that runs in this engine comes to an end."""


class _Unavailable(Refusal):
    status = 503
    type = "service_unavailable_error"


class Overloaded(_Unavailable):
    code = "server_is_overloaded"


class EngineBusy(Overloaded):
    """Its own queue is full: who tries elsewhere must not fill the next one."""


class UsageBacklog(_Unavailable):
    """What calls use can be written down no more: then nothing may be begun."""

    code = "usage_backlog_full"


class ModelLoading(_Unavailable):
    code = "model_loading"


class ModerationUnavailable(_Unavailable):
    """The route wants calls judged, and its judge does not answer."""

    code = "moderation_unavailable"


class NotReady(_Unavailable):
    """The gateway itself cannot serve: it is draining, or knows too little or too old."""

    code = "gateway_not_ready"


class BudgetUnknown(_Unavailable):
    """The database is away, and what was leased of it is used up."""

    code = "budget_unavailable"


class UpstreamTimeout(Refusal):
    status = 504
    type = "timeout_error"
    code = "upstream_timeout"
    retry = False  # the work was paid for once already


_WAIT_SECONDS_MAX = 60  # clients give up, or ignore it, above


def body_of(refusal: Refusal) -> bytes:
    return error_body(refusal.message, refusal.type, refusal.param, refusal.code)


def error_body(message: str, type_: str, param: str | None, code: str | None) -> bytes:
    return msgspec.json.encode(
        {"error": {"message": message, "type": type_, "param": param, "code": code}}
    )


def headers_of(refusal: Refusal) -> Headers:
    """The same wait in seconds and in milliseconds, and whether a client should try again."""
    headers: list[tuple[bytes, bytes]] = []
    if refusal.wait_seconds is not None:
        wait = wait_milliseconds(refusal.wait_seconds)
        headers.append((b"retry-after", b"%d" % math.ceil(wait / 1000)))
        headers.append((b"retry-after-ms", b"%d" % wait))
    if refusal.retry is not None:
        headers.append((b"x-should-retry", b"true" if refusal.retry else b"false"))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(refusal, WrongMethod):
        headers.append((b"allow", refusal.allowed.encode()))
    return tuple(headers)


def wait_milliseconds(wait_seconds: float) -> int:
    """As a client is told it, in every place where it is told."""
    return min(max(math.ceil(wait_seconds * 1000), 1), _WAIT_SECONDS_MAX * 1000)


def error_event(refusal: Refusal) -> bytes:
    """What a stream that has begun ends with; never followed by a forged [DONE]."""
    return b"data: " + body_of(refusal) + b"\n\n"
