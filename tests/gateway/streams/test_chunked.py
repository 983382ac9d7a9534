"""A stream in chunks of HTTP reads the same however these are cut, parsed or skimmed."""

import asyncio

import pytest

from tests.gateway.place import chat
from tests.gateway.streams.test_tokens import event
from tests.gateway.upstream import DONE, Script

TEXTS = ["one ", "two ", "drei\n", "四 ", '"five" ', "\\ six ", "}] ", "\r\n ", "nine "]


def usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 4, "total_tokens": 4 + tokens, "completion_tokens": tokens}


def streamed(**changes) -> Script:
    parts = [event("", role="assistant", usage=None)]
    parts += [event(t, usage=usage(n), token_ids=[n]) for n, t in enumerate(TEXTS, 1)]
    parts += [event("", finish_reason="stop", usage=usage(len(TEXTS))), DONE]
    return Script(b"".join(parts), **changes)


@pytest.mark.parametrize("split", ["frame", 0, 1, 7, 300, 700])
@pytest.mark.parametrize("engine", ["vllm", "external"])
@pytest.mark.parametrize("told", [{}, {"include_usage": True, "continuous_usage_stats": True}])
async def test_however_it_is_cut_the_tenant_reads_the_same(place, engines, split, engine, told):
    """`external` engines are not asked for token ids, so theirs are passed on."""
    await engines(streamed(chunked=True, split=split), streamed(), engine=engine)
    asked = chat(stream=True, **({"stream_options": told} if told else {}))
    one, other = await place.post(asked), await place.post(asked)
    assert one.text() == other.text() == "".join(TEXTS)
    assert one.events() == other.events()
    ends = place.closes()
    assert [end.output_tokens for end in ends] == [9, 9]
    assert [end.delivered_tokens for end in ends] == [9, 9]
    assert [end.outcome for end in ends] == ["complete", "complete"]


@pytest.mark.parametrize("told", [{}, {"include_usage": True, "continuous_usage_stats": True}])
async def test_each_chunk_comes_when_it_is_sent(place, engines, told):
    gate = asyncio.Semaphore(0)
    await engines(streamed(chunked=True, split="frame", gate=gate), engine="external")
    asked = chat(stream=True, **({"stream_options": told} if told else {}))
    async with place.stream(asked) as stream:
        gate.release()
        for text in ("one ", "two "):
            gate.release()
            await stream.until(text.encode())
        for _ in range(20):
            gate.release()
        got = await stream.until(b"[DONE]\n\n\r\n0\r\n\r\n")
    assert got.count(b"data: ") == 1 + len(TEXTS) + 2 + bool(told)
    await place.until(place.closes)
    assert place.closes()[0].delivered_tokens == 9


async def test_a_connection_is_used_again_after_what_was_skimmed(place, engines):
    engine = await engines(streamed(chunked=True, split="frame"))
    for _ in range(3):
        assert (await place.post(chat(stream=True))).text() == "".join(TEXTS)
    assert engine.connections_most == 1


async def test_what_fails_while_chunks_pass_ends_the_call_alone(place, engines, monkeypatch):
    """And gives back what it held."""
    gate = asyncio.Semaphore(3)
    await engines(streamed(chunked=True, split="frame", gate=gate))
    async with place.stream(chat(stream=True)) as stream:
        await stream.until(b"two ")
        [call] = place.shared.calls
        monkeypatch.setattr((call._attempt or call).reader, "skim", lambda raw: 1 / 0)
        gate.release()
        await stream.until(b"could not be handled")
    await place.until(place.closes)
    assert next(iter(place.shared.replicas.all())).in_flight == 0
