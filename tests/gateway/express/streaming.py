"""Streams of engines, and what a call of one of them was and left behind."""

import collections
import re

from control.metering.records import Progress
from tests.gateway.express.test_express import LONG, steady
from tests.gateway.place import chat
from tests.gateway.upstream import DONE, Script, chunk, streamed, usage_chunk

FINE = streamed("fine", chunked=True)
ROLE, ONE, TWO = chunk(role=True), chunk("one", usage=(7, 1)), chunk("two", usage=(7, 2))
STOP, USED = chunk(finish="stop"), usage_chunk(7, 2)
GOOD = (ROLE, ONE, TWO, STOP, USED, DONE)
VLLM = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{%b},"logprobs":null,"finish_reason":null%b}]%b}\n\n'
)
_USED = b',"usage":{"prompt_tokens":7,"total_tokens":%d,"completion_tokens":%d}'


def token(n: int, *, ids: bool = False, usage: bool = True) -> bytes:
    told = b',"token_ids":[%d]' % n if ids else b""
    return VLLM % (b'"content":"t%d"' % n, told, _USED % (7 + n, n) if usage else b"")


def as_vllm(**how) -> bytes:
    role = VLLM % (b'"role":"assistant","content":""', b"", b',"prompt_token_ids":[1,2,3]')
    return b"".join([role, *(token(n, **how) for n in range(1, 6)), STOP, usage_chunk(7, 5), DONE])


def of(*events: bytes) -> bytes:
    return b"".join(events)


FRAMES = {
    "frames": {"chunked": True, "split": "frame"},
    "at once": {"chunked": True},
    "in bytes": {"chunked": True, "split": 7},
    "bare": {"split": "frame"},
    "torn": {"chunked": True, "split": "frame", "end": "rst"},
}


async def one_way(place, engine, script: Script, *, long: bool, **asked) -> dict:
    engine.scripts = [script]
    before, seen = len(place.records()), len(engine.seen)
    counted = dict(place.shared.tally.counters)
    answer = await place.post(chat("hello", stream=True, **asked), **(LONG if long else {}))
    await place.until(lambda: not place.shared.calls)
    return {
        "status": answer.status,
        "body": re.sub(rb"req_\w+", b"", answer.body),
        "headers": told(answer.headers),
        "asked": [one.body for one in engine.seen[seen:]],
        "heads": [re.sub(r"[0-9a-f]{16,}", "", one.head) for one in engine.seen[seen:]],
    } | left(place, before, counted)


def told(headers: dict) -> dict:
    own = ("x-request-id", "openai-processing-ms", "retry-after-ms", "retry-after")
    return {name: value for name, value in headers.items() if name not in own}


def left(place, before: int, counted: dict) -> dict:
    """What a call left behind; whether it was looked at in between is chance."""
    now = place.shared.tally.counters
    [live] = place.shared.replicas.all()
    records = [one for one in place.records()[before:] if not isinstance(one, Progress)]
    return {
        "records": [steady(record) for record in records],
        "counted": steadily({k: v - counted.get(k, 0) for k, v in now.items()}),
        "left": (live.in_flight, live.room.held, len(live.attempts), len(place.shared.waiting)),
        "charged": [line.charged for line in place.shared.waiting._lines.values() if line.charged],
        "health": live.health.failures,
    }  # fmt: skip


def steadily(counted: dict[str, float]) -> dict[str, float]:
    """Of times only that they were taken."""
    found = collections.Counter()
    for name, value in counted.items():
        if value and "_seconds_sum" not in name:
            found[name.partition(",le=")[0]] += value
    return dict(found)
