"""Records of ordinary calls as templates: what differs between two calls is all that is written."""

import msgspec

from control.gateway.bodies import ordinary
from control.metering import records
from control.routes.snapshot import Identity, ReplicaInfo
from control.states import Outcome, TokensSource

# What differs, as `%` writes it.
_TEXT, _WHOLE, _JSON = b'"%b"', b"%d", b"%b"
_OPEN = {"call_id": _TEXT, "started_at": _JSON, "input_estimate": _WHOLE}
_CLOSE = {
    "call_id": _TEXT,
    "finish_reason": _JSON,
    "input_tokens": _WHOLE,
    "cached_input_tokens": _WHOLE,
    "output_tokens": _WHOLE,
    "reasoning_tokens": _WHOLE,
    "delivered_tokens": _WHOLE,
    "started_at": _JSON,
    "first_token_at": _JSON,
    "ended_at": _JSON,
}


def time_of(seconds: float) -> bytes:
    """With the digits that a clock has: all those of a float take twice as long to find."""
    return b"%.6f" % seconds


def templates(
    identity: Identity, route: str, info: ReplicaInfo, priority: str, *, streams: bool = False
) -> tuple[bytes, bytes]:
    """Of the lines that open and close a call; in both what differs is in the record's order."""
    whose = (
        *("", identity.tenant_id, identity.project_id, identity.key_id),
        *(route, info.version_id, info.id, ordinary.ENDPOINT, streams, priority),
    )
    close = records.Close(
        *whose,
        attempts=1,
        outcome=Outcome.COMPLETE,
        status=200,
        finish_reason="",
        input_tokens=0,
        cached_input_tokens=0,
        output_tokens=0,
        reasoning_tokens=0,
        delivered_tokens=0,
        tokens_source=TokensSource.ENGINE,
        started_at=0.0,
        first_token_at=0.0,
        ended_at=0.0,
    )
    return _template(records.Open(*whose, 0.0, 0), _OPEN), _template(close, _CLOSE)


def _template(record: records.Record, differs: dict[str, bytes]) -> bytes:
    members = msgspec.json.decode(records.line_of(record), type=dict[str, msgspec.Raw])
    written = [
        b'"%b":%b' % (name.encode(), differs.get(name) or bytes(value).replace(b"%", b"%%"))
        for name, value in members.items()
    ]
    return b"{%b}\n" % b",".join(written)
