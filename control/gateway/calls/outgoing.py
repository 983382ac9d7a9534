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
    info, body = live.info, plan.body
    return b"".join(
        [
            b"POST %b%b HTTP/1.1\r\n" % (info.path.encode(), _PATHS[plan.endpoint]),
            b"host: %b:%d\r\n" % (info.host.encode(), info.port),
            b"content-type: application/json\r\naccept-encoding: identity\r\n",
            b"x-request-id: %b\r\n" % call_id.encode(),
            b"traceparent: %b\r\n" % traceparent,
            b"authorization: Bearer %b\r\n" % live.key.encode() if live.key else b"",
            b"content-length: %d\r\n\r\n" % len(body),
            body,
        ]
    )
