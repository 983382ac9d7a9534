"""An event read at a glance means what it means when it is decoded."""

import json

import pytest

from control.gateway.streams.ids import TokenIds
from control.gateway.streams.relay import Piece, Reader
from control.gateway.streams.tokens import beginning_of, token_in

USAGE = {"prompt_tokens": 4, "total_tokens": 6, "completion_tokens": 2}


def event(text: str = "Hi", *, field: str = "content", usage=USAGE, **changes) -> bytes:
    choice = {"index": 0, "delta": {field: text}, "logprobs": None, "finish_reason": None}
    chunk = {
        "id": "chatcmpl-8f3f",
        "object": "chat.completion.chunk",
        "created": 1_764_000_000,
        "model": "org/model-1.5:free",
        "choices": [choice | changes],
    }
    if usage is not None:
        chunk["usage"] = usage
    return event_of(chunk)


def event_of(chunk: dict) -> bytes:
    text = json.dumps(chunk, separators=(",", ":"), ensure_ascii=False)
    return b"data: " + text.encode("utf-8", "surrogatepass") + b"\n\n"


AT_A_GLANCE = {
    "ordinary": event(),
    "thought": event(field="reasoning"),
    "token ids": event(token_ids=None),
    "told token ids": event(token_ids=[17, 4]),
    "no usage": event(usage=None),
    "escapes": event('a "quoted"\n\tline \\ here'),
    "other scripts": event("水位 ½"),
    "looks like an end": event('"}],"usage":{"prompt_tokens":9}}'),
}
DECODED = {
    "role": event("", role="assistant"),
    "empty": event(""),
    "finish": event(finish_reason="stop"),
    "another choice": event(index=1),
    "logprobs": event(logprobs={"content": []}),
    "cached tokens": event(usage=USAGE | {"prompt_tokens_details": {"cached_tokens": 1}}),
    "usage is null": event().replace(json.dumps(USAGE, separators=(",", ":")).encode(), b"null"),
    "negative": event(usage=USAGE | {"completion_tokens": -1}),
    "spaces": event().replace(b'":', b'": '),
    "more members": event(usage=None).replace(b"}]}", b'}],"service_tier":null}'),
    "an escaped name": event("\u0001"),
    "not UTF-8": event("x\udc80"),
    "two events": event() + event(),
    "an error": event_of({"error": {"message": "x", "code": 500}}),
}


CHUNK = event("", usage=None)[6:-2]


def read(one: Reader, data: bytes) -> list[Piece]:
    token = one.glance(data)
    return one.feed(data) if token is None else [Piece(token, content=True)]


def reader(*, running_usage: bool, token_ids: TokenIds | None = None) -> Reader:
    made = Reader(
        include_usage=True,
        running_usage=running_usage,
        choices=1,
        event_bytes_max=100_000,
        token_ids=token_ids,
    )
    made.feed(event("", usage=None))
    return made


@pytest.mark.parametrize("running_usage", [False, True])
@pytest.mark.parametrize("data", [*AT_A_GLANCE.values(), *DECODED.values()])
def test_whole_and_in_two_reads_it_is_the_same(data, running_usage):
    whole, halves = reader(running_usage=running_usage), reader(running_usage=running_usage)
    pieces = read(whole, data)
    assert pieces == halves.feed(data[:9]) + halves.feed(data[9:])  # a torn event is decoded
    assert (whole.usage(), whole.parts) == (halves.usage(), halves.parts)
    assert (whole.finished, whole.outcome()) == (halves.finished, halves.outcome())
    assert whole.finish() == halves.finish()


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("running_usage", [False, True])
@pytest.mark.parametrize("name", [*AT_A_GLANCE, *DECODED])
def test_token_ids_are_kept_and_shown_alike_at_a_glance_and_decoded(name, running_usage, shown):
    data = (AT_A_GLANCE | DECODED)[name]
    kept = TokenIds(1000, shown=shown), TokenIds(1000, shown=shown)
    whole, halves = (reader(running_usage=running_usage, token_ids=ids) for ids in kept)
    [*pieces], [*others] = read(whole, data), halves.feed(data[:9]) + halves.feed(data[9:])
    assert [bare(piece) for piece in pieces] == [bare(piece) for piece in others]
    assert (bytes(kept[0].made), kept[0].usable) == (bytes(kept[1].made), kept[1].usable)
    if name == "told token ids":
        assert (bytes(kept[0].made), kept[0].count, kept[0].usable) == (b",17,4", 2, True)
        assert (b"token_ids" in pieces[0].data) is shown


def bare(piece) -> object:
    text = piece.data.removeprefix(b"data: ").strip()
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_more_token_ids_than_are_kept_are_none():
    ids = TokenIds(4, shown=False)
    for _ in range(5):
        ids.add(b"17", thought=False)
    assert not ids.usable


@pytest.mark.parametrize("name", AT_A_GLANCE)
def test_ordinary_tokens_are_read_at_a_glance(name):
    assert token_in(AT_A_GLANCE[name], beginning_of(CHUNK))
    assert reader(running_usage=False).glance(AT_A_GLANCE[name])


@pytest.mark.parametrize("name", DECODED)
def test_anything_else_is_decoded(name):
    assert token_in(DECODED[name], beginning_of(CHUNK)) is None
    assert reader(running_usage=False).glance(DECODED[name]) is None


def test_tokens_that_are_glanced_at_are_counted_and_remembered():
    one = reader(running_usage=False, token_ids=TokenIds(1000, shown=False))
    counts = []
    for made in (2, 3):
        usage = {"prompt_tokens": 4, "total_tokens": 4 + made, "completion_tokens": made}
        assert one.glance(event(usage=usage, token_ids=[made])) == event(usage=None)
        counts.append((one.tokens, one.usage().output, one.parts))
    assert one.glance(event(usage=None)) == event(usage=None)
    assert (*counts, (one.tokens, one.usage().output)) == ((2, 2, 1), (3, 3, 2), (3, 3))
    assert one.resume() == event(usage=None)[6:-2]
    assert one.glance(event()) is None


@pytest.mark.parametrize("end", [event(finish_reason="stop"), b"data: [DONE]\n\n"])
def test_nothing_is_glanced_at_before_the_first_chunk_or_after_the_last(end):
    fresh = Reader(include_usage=False, running_usage=False, choices=1, event_bytes_max=1000)
    assert fresh.glance(event()) is None
    fresh.feed(event("", role="assistant"))
    assert fresh.glance(event()) is not None
    fresh.feed(event()[:9])
    assert fresh.glance(event()) is None
    fresh.feed(event()[9:])
    assert fresh.glance(event()) is not None
    fresh.feed(end)
    assert fresh.glance(event()) is None


def chunked(*events: bytes) -> bytes:
    return b"".join([b"%x\r\n%b\r\n" % (len(one), one) for one in events])


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("running_usage", [False, True])
@pytest.mark.parametrize("name", [*AT_A_GLANCE, *DECODED])
def test_chunks_are_skimmed_as_their_events_are_read(name, running_usage, shown):
    events = (event("a"), (AT_A_GLANCE | DECODED)[name], event("b", token_ids=[7]))
    for many in (events[1:2], events):
        kept = TokenIds(1000, shown=shown), TokenIds(1000, shown=shown)
        one, other = (reader(running_usage=running_usage, token_ids=ids) for ids in kept)
        skimmed = one.skim(chunked(*many))
        pieces = [piece for data in many for piece in read(other, data)]
        if skimmed is None:
            assert name in DECODED or running_usage and not shown
            continue
        assert name in AT_A_GLANCE
        text = b"".join(piece.data for piece in pieces)
        assert skimmed == (chunked(*many) if text == b"".join(many) else text)
        assert (one.usage(), one.parts, one.tokens) == (other.usage(), other.parts, other.tokens)
        assert (bytes(kept[0].made), kept[0].usable) == (bytes(kept[1].made), kept[1].usable)
        assert one.resume() == other.resume()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\r\n",
        event(),
        chunked(event())[:-1],
        chunked(event())[1:],
        chunked(event()) + b"5",
        chunked(event(), event())[:-2],
        chunked(event(), event()) + b"0\r\n\r\n",
        b"0" + chunked(event()),
        b"+" + chunked(event()),
        b"%x;x\r\n%b\r\n" % (len(event()), event()),
        b"%x\r\n%b\r\n" % (len(event()) + 2, event()),
        b"%x\r\n%b\r\n" % (2 * len(event()), event() + event()),
    ],
)
def test_what_is_not_whole_chunks_is_left_to_the_parser(raw):
    one = reader(running_usage=True)
    assert one.skim(raw) is None
    assert one.parts == 0
