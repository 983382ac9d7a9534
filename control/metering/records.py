"""What a spool holds: one line for each step of a call, and one for refusals of a minute (pure)."""

from typing import Annotated

import msgspec

from control.telemetry.traces import Trace, Try

LINE_BYTES_MAX = 64 * 1024
NO_NUL = r"^[^\x00]*$"


class Open(msgspec.Struct, tag="open", frozen=True):
    """An admitted call was dispatched. Times are epoch seconds; estimates are upper bounds."""

    call_id: str
    tenant_id: int
    project_id: int
    key_id: int
    route: str
    version_id: int | None
    replica_id: int | None
    endpoint: str
    stream: bool
    priority: str
    started_at: float
    input_estimate: int


class Progress(msgspec.Struct, tag="progress", frozen=True):
    """Once a second while streaming: tokens so far, as the engine reports them."""

    call_id: str
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int


class Close(msgspec.Struct, tag="close", frozen=True, omit_defaults=True):
    """The end of a call, whole: an event can be made of it alone.

    What has a default says how the call went and changes no amount: an older release reads over
    it, and leaves it out.
    """

    call_id: str
    tenant_id: int
    project_id: int
    key_id: int
    route: str
    version_id: int | None
    replica_id: int | None
    endpoint: str
    stream: bool
    priority: str
    attempts: int
    outcome: str
    status: int
    finish_reason: str
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    delivered_tokens: int
    tokens_source: str
    started_at: float
    first_token_at: float | None
    ended_at: float
    cached_source: str = ""  # of cached_input_tokens, where it is not tokens_source
    flags: tuple[str, ...] = ()
    tries: tuple[Try, ...] = ()  # all but the last
    trace: Trace | None = None
    choices: int = 1  # of each prompt: an engine reads it once for each
    cut: bool = False  # complete for its tenant; the engine was told to stop, and may have gone on
    untold: int = 0  # tokens that the last engine may have read, if it did not come to say so

    @property
    def trace_id(self) -> str:
        """A call's id is made as a trace's is: 16 bytes, the last of them chance."""
        return self.call_id.removeprefix("req_")


class Refused(msgspec.Struct, tag="refused", frozen=True, omit_defaults=True):
    """Refusals before admission, counted per tenant, key, code and minute (epoch seconds).

    With a trace it is one of them, which is counted with the others all the same.
    """

    tenant: Annotated[str, msgspec.Meta(max_length=63, pattern=NO_NUL)]
    key_id: Annotated[int, msgspec.Meta(ge=0)] | None
    code: Annotated[str, msgspec.Meta(max_length=48, pattern=NO_NUL)]
    minute: Annotated[int, msgspec.Meta(ge=0, lt=2**35)]
    count: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    call_id: str = ""
    route: str = ""
    status: int = 0
    started_at: float = 0.0
    ended_at: float = 0.0
    trace: Trace | None = None


Record = Open | Progress | Close | Refused

_decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder().encode


def line_of(record: Record) -> bytes:
    line = _encode(record) + b"\n"
    if len(line) > LINE_BYTES_MAX:
        raise ValueError(f"a spool record of {len(line)} bytes; the most is {LINE_BYTES_MAX}")
    return line


def record_of(raw: bytes) -> Record | None:
    """What a line says, or None when it cannot be understood."""
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
