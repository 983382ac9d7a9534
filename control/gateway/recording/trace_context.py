"""W3C Trace Context: what a caller says of its own trace, and what engines and callers are told.

A trace begins anew at the border: the caller's is kept as a link. A call's id is made as a trace's
is, so it is the trace's; ids of spans are made of it too, so that a record shipped twice tells the
same spans.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

_BEGINNING = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_LENGTH = 55
_TRACE_ID, _PARENT_ID, _FLAGS = slice(3, 35), slice(36, 52), slice(53, 55)
_KEY = re.compile(
    r"[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}"
)
_VALUE = re.compile(r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
_MEMBERS_MAX = 32
_CHARACTERS_MAX = 512  # what others must be able to take
_LONG_MEMBER = 128  # goes first when there is no room

_RANDOM, _SAMPLED = 0x02, 0x01
# Of a trace and a span that are not sampled.
TRACEPARENT = b"00-%%b-%%b-0%d" % _RANDOM


class Parent(NamedTuple):
    """The span, in a trace of its own, that a call was made from."""

    trace_id: str
    parent_id: str
    sampled: bool


def parent_of(traceparent: bytes | None) -> Parent | None:
    """None if there is none, or none that can be believed. Two headers come as one with a comma."""
    if not traceparent or not _BEGINNING.match(traceparent):
        return None
    rest = traceparent[_LENGTH:]
    if rest and (traceparent.startswith(b"00") or not rest.startswith(b"-") or b"," in rest):
        return None
    text = traceparent.decode("ascii", "replace")
    return Parent(text[_TRACE_ID], text[_PARENT_ID], bool(int(text[_FLAGS], 16) & _SAMPLED))


def state_of(tracestate: bytes | None) -> str:
    """As far as it is well formed and fits; nothing of it if a member is not."""
    if not tracestate:
        return ""
    members = [part.strip(" \t") for part in tracestate.decode("latin-1").split(",")]
    members = [member for member in members if member]  # empty ones are allowed
    keys = [member.partition("=")[0] for member in members]
    if len(members) > _MEMBERS_MAX or len(set(keys)) != len(keys):
        return ""
    if not all(_is_member(member) for member in members):
        return ""
    return ",".join(_fitting(members))


def link_of(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """The caller's own trace, as a kept call has it; nothing if there is none."""
    parent = parent_of(headers.get(b"traceparent"))
    if parent is None:
        return {}  # then the state is nobody's either
    state = state_of(headers.get(b"tracestate"))
    return {"link": f"{parent.trace_id}-{parent.parent_id}", "link_state": state}


def own_span(call_id: str) -> str:
    """Of the call itself: the half of its id with the time in it."""
    return call_id[4:20]


def engine_span(call_id: str, attempt: int) -> str:
    """Of one request to an engine; the first is 1. The half of the id that is chance."""
    if attempt == 1:
        return call_id[20:]
    return f"{int(call_id[20:], 16) + attempt - 1:016x}"  # its two first bits are 10


def for_engine(call_id: str, attempt: int, *, sampled: bool) -> bytes:
    """What one request to an engine carries."""
    return traceparent(call_id, engine_span(call_id, attempt), sampled=sampled).encode()


def traceparent(call_id: str, span: str, *, sampled: bool) -> str:
    return f"00-{call_id[4:]}-{span}-0{_RANDOM | sampled}"


def _is_member(member: str) -> bool:
    key, equals, value = member.partition("=")
    return bool(equals and _KEY.fullmatch(key) and _VALUE.fullmatch(value))


def _fitting(members: list[str]) -> list[str]:
    kept = list(members)
    for long in (True, False):
        for member in reversed(members):
            if len(",".join(kept)) <= _CHARACTERS_MAX:
                return kept
            if member in kept and (not long or len(member) > _LONG_MEMBER):
                kept.remove(member)
    return kept
