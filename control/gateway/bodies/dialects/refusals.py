"""A refusal as the API that was called words it: status, body and headers."""

from control.gateway import errors
from control.gateway.bodies.dialects import messages_answer
from control.gateway.errors import Headers, Refusal

_ANTHROPIC = "/v1/messages"


def worded(path: str, refusal: Refusal, call_id: str) -> tuple[int, bytes, Headers]:
    headers = errors.headers_of(refusal)
    if not path.startswith(_ANTHROPIC):
        return refusal.status, errors.body_of(refusal), headers
    return (
        messages_answer.status_of(refusal),
        messages_answer.body_of(refusal, call_id),
        headers + messages_answer.headers_of(call_id),
    )
