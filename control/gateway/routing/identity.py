"""Whether the engine at a replica's address is the one that was launched there."""

import msgspec

from control.gateway.http1.proof import Reply
from control.gateway.routing.health import Cause
from control.routes.snapshot import ReplicaInfo

EXTERNAL = "external"
# Engines of others need not list their models nor tell of their health.
_UNTOLD = frozenset({403, 404, 405, 501})


class _Named(msgspec.Struct):
    id: str = ""


class _Models(msgspec.Struct):
    data: list[_Named] = []


_models = msgspec.json.Decoder(_Models).decode


def models_request(info: ReplicaInfo, key: str) -> bytes:
    return _get(info, key, "/v1/models")


def health_request(info: ReplicaInfo, key: str) -> bytes:
    return _get(info, key, "/health")


def judge_models(info: ReplicaInfo, reply: Reply | None) -> Cause | None:
    """None if it serves the model under the name that it was launched with, with its key."""
    if reply is None:
        return Cause.UNREACHABLE
    if reply.status == 200:
        return None if info.served_name in _names(reply.body) else Cause.IMPOSTOR
    if info.engine == EXTERNAL and reply.status in _UNTOLD:
        return None
    return Cause.IMPOSTOR if 400 <= reply.status < 500 else Cause.UNREACHABLE


def judge_health(info: ReplicaInfo, reply: Reply | None) -> Cause | None:
    if reply is None:
        return Cause.UNREACHABLE
    if reply.status == 200 or info.engine == EXTERNAL and reply.status in _UNTOLD:
        return None
    return Cause.DIED


def _get(info: ReplicaInfo, key: str, path: str) -> bytes:
    authorization = f"authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"GET {info.path}{path} HTTP/1.1\r\nhost: {info.host}:{info.port}\r\n"
        f"accept: application/json\r\naccept-encoding: identity\r\n{authorization}\r\n"
    )
    return head.encode()


def _names(body: bytes) -> list[str]:
    try:
        return [model.id for model in _models(body).data]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
