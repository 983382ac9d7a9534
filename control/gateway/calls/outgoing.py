"""The request that an engine gets, as bytes; of a tenant's own headers, nothing."""

from control.gateway.calls.plan import Plan
from control.gateway.routing.live import Live

_PATHS = {
    "chat.completions": b"/v1/chat/completions",
    "completions": b"/v1/completions",
    "embeddings": b"/v1/embeddings",
    "rerank": b"/v1/rerank",
    "score": b"/v1/score",
    "tokenize": b"/tokenize",
}


def request_of(plan: Plan, live: Live, call_id: str, traceparent: bytes) -> bytes:
    return request_with(head_of(live, plan.endpoint), call_id.encode(), traceparent, plan.body)


def request_with(head: bytes, call_id: bytes, traceparent: bytes, body: bytes) -> bytes:
    return b"%bx-request-id: %b\r\ntraceparent: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        *(head, call_id, traceparent),
        *(len(body), body),
    )


def head_of(live: Live, endpoint: str) -> bytes:
    """What all requests to this replica have in common; kept until it changes."""
    if head := live.heads.get(endpoint):
        return head
    info, key = live.info, live.key
    head = live.heads[endpoint] = b"".join(
        [
            b"POST %b%b HTTP/1.1\r\n" % (info.path.encode(), _PATHS[endpoint]),
            b"host: %b:%d\r\n" % (info.host.encode(), info.port),
            b"content-type: application/json\r\naccept-encoding: identity\r\n",
            b"authorization: Bearer %b\r\n" % key.encode() if key else b"",
        ]
    )
    return head
