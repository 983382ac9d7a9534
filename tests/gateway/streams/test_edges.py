"""A stream reads the same whether its events are taken as they are or decoded."""

import itertools

import pytest

from control.gateway.streams.ids import TokenIds
from control.gateway.streams.names import Name
from control.gateway.streams.relay import Reader

DONE = b"data: [DONE]\n\n"
PROMPT = b',"prompt_token_ids":[1,22,3]'


def event(choices: bytes, more: bytes = b"") -> bytes:
    head = b'{"id":"chatcmpl-8f3f","object":"chat.completion.chunk","created":1764000000,'
    return b'data: %b"model":"served","choices":[%b]%b}\n\n' % (head, choices, more)


def said(delta: bytes, finish: bytes = b"null", more: bytes = b"", outside: bytes = b"") -> bytes:
    choice = b'{"index":0,"delta":{%b},"logprobs":null,"finish_reason":%b%b}'
    return event(choice % (delta, finish, more), outside)


def role(more: bytes = b"") -> bytes:
    return said(b'"role":"assistant","content":""', outside=more)


def token(n: int, more: bytes = b"") -> bytes:
    return said(b'"content":"t%d"' % n, more=b',"token_ids":[%d]' % n, outside=more or used(n))


def last(reason: bytes = b"stop", text: bytes = b"", ids: bytes = b"", told: bytes = b"") -> bytes:
    return said(b'"content":"%b"' % text, b'"%b"' % reason, b',"stop_reason":null' + ids, told)


def used(n: int, more: bytes = b"") -> bytes:
    counts = b'"prompt_tokens":4,"total_tokens":%d,"completion_tokens":%d' % (4 + n, n)
    return b',"usage":{%b%b}' % (counts, more)


NULL, CACHED = b',"completion_tokens_details":null', b',"prompt_tokens_details":{"cached_tokens":3}'
ROLES = {
    "a role": role(),
    "with usage": role(used(0)),
    "with usage as of vLLM": role(used(0, NULL) + PROMPT + b',"prompt_text":null'),
    "with a prompt": role(PROMPT),
    "without one": role(b',"prompt_token_ids":null,"prompt_text":null'),
}
LASTS = {
    "an end": said(b'"content":""', b'"stop"'),
    "with text": last(b"length", "水".encode()),
    "with a token": last(text=b"x", ids=b',"token_ids":[7]', told=used(4)),
    "with no token": last(ids=b',"token_ids":null', told=used(4, NULL)),
    "aborted": last(b"abort"),
}
USAGES = {
    "none": b"",
    "usage": event(b"", used(4)),
    "of an engine": event(b"", used(4, CACHED) + b',"system_fingerprint":"vllm-0.32.0-stub"'),
    "of thoughts": event(b"", used(4, b',"completion_tokens_details":{"reasoning_tokens":1}')),
}
ODD = {
    "nothing": b"",
    "an error": b'data: {"error":{"message":"x","code":500}}\n\n',
    "a comment": b": hello\n\n",
    "a line end": b"\n\n",
    "a role": role(),
    "a token": token(9),
    "a thought": said(b'"reasoning":"hm"', outside=used(9)),
    "an end": last(),
    "an end in thought": said(b'"reasoning":"hm"', b'"stop"'),
    "an end by a word": last().replace(b'"stop_reason":null', b'"stop_reason":"x"'),
    "an odd reason": last(b"sto\\u0070"),
    "an end that is no text": last(text=b"\xff"),
    "usage": event(b"", used(9)),
    "usage of nothing": event(b"", b',"usage":null'),
    "usage that is none": event(b"", b',"usage":{"prompt_tokens":"4"}'),
    "usage that is torn": event(b"", b',"usage":{"prompt_tokens":4,}'),
    "usage in two lines": event(b"", used(9).replace(b',"c', b',\ndata: "c')),
    "done": DONE,
}
HOW = list(itertools.product([False, True], [False, True], [None, False, True], ["", "named"]))


def reader(include: bool, running: bool, shown: bool | None, name: str) -> Reader:
    ids = None if shown is None else TokenIds(1000, shown=shown)
    made = Reader(
        include_usage=include,
        running_usage=running,
        choices=1,
        event_bytes_max=100_000,
        token_ids=ids,
    )
    if name:
        made.name = Name(name, "served")
    return made


def known(one: Reader) -> dict:
    ids = one.token_ids
    return {
        "usage": one.usage(),
        "tokens": (one.tokens_out, one.parts, one.tells_cached),
        "end": (one.outcome(), one.finish_reason(), one.done, bool(one.error)),
        "ids": ids and (ids.prompt, bytes(ids.made), ids.usable),
        "left": [piece.data for piece in one.finish()],
        "last": one.resume(),
    }


def torn(one: Reader, events: list[bytes]) -> list:
    """Each in two reads, so that it is decoded."""
    return [p for data in events for part in (data[:9], data[9:]) if part for p in one.feed(part)]


def assert_same(events: list[bytes], *how) -> None:
    decoded = reader(*how)
    expected = torn(decoded, events)
    left = known(decoded)
    for reads in (events, [b"".join(events)]):
        taken = reader(*how)
        pieces = [piece for data in reads for piece in taken.feed(data)]
        assert pieces == expected
        assert known(taken) == left


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("begins", ROLES)
def test_a_stream_begins_alike(begins, how):
    for tokens in ([], [token(1)], [token(1), token(2)]):
        assert_same([ROLES[begins], *tokens], *how)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("ends", LASTS)
def test_a_stream_ends_alike(ends, how):
    for usage in USAGES.values():
        for done in ([], [DONE], [DONE, token(9)]):
            events = [role(), token(1), token(2), LASTS[ends], usage, *done]
            assert_same([event for event in events if event], *how)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("at", range(6))
def test_whatever_comes_in_between_is_read_alike(at, odd):
    events = [role(PROMPT), token(1), last(ids=b',"token_ids":null'), USAGES["usage"], DONE]
    events.insert(at, ODD[odd])
    for how in ((False, False, False, ""), (True, False, None, "named"), (True, True, True, "")):
        assert_same([event for event in events if event], *how)


def test_ordinary_streams_are_not_decoded(monkeypatch):
    """Where decoding begins there is nothing to be called."""
    monkeypatch.setattr(Reader, "_chunk", None)
    for begins, ends, usage in itertools.product(ROLES, LASTS, USAGES):
        one = reader(False, False, False, "named")
        one.feed(ROLES[begins] + token(1))
        assert one.skim(b"%x\r\n%b\r\n" % (len(token(2)), token(2)))
        one.feed(LASTS[ends] + USAGES[usage] + DONE)
        assert one.done
