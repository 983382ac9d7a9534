"""Failure cases from the field about streams, over real sockets."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest

from tests.gateway.place import chat
from tests.gateway.upstream import (
    DONE,
    Script,
    answered,
    chunk,
    streamed,
)

ROLE = chunk(role=True)
STREAMS = json.loads((Path(__file__).parents[2] / "cases" / "streams.json").read_text())


def played(name: str, split: int | str | None = None) -> Script:
    given = STREAMS[name]
    cut = given["split"] if split is None else split
    return Script(bytes.fromhex(given["hex"]), split=cut, end=given["end"])


def datas(body: bytes) -> list[dict]:
    """Every chunk of a stream, by a reader that knows all line ends."""
    text = body.decode().replace("\r\n", "\n").replace("\r", "\n")
    found = []
    for block in text.split("\n\n"):
        lines = [line[5:].removeprefix(" ") for line in block.split("\n") if line[:5] == "data:"]
        if lines and not lines[0].startswith("[DONE]"):
            found.append(json.loads("\n".join(lines)))
    return found


def content(body: bytes) -> str:
    choices = [choice for data in datas(body) for choice in data.get("choices", ())]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


async def test_s01_a_character_cut_between_reads_stays_whole(place, engines, caplog):
    await engines(played("S01-a"))
    answer = await place.post(chat(stream=True))
    assert content(answer.body) == STREAMS["S01-a"]["expect"]["content"]
    assert "\ufffd" not in answer.body.decode()
    kept = b"".join(file.read_bytes() for file in place.spool.folder.glob("*.jsonl"))
    assert "\ufffd" not in kept.decode() + caplog.text
    [opened], [closed] = place.opens(), place.closes()
    assert opened.call_id == closed.call_id
    assert (closed.input_tokens, closed.output_tokens) == (7, 5)


@pytest.mark.parametrize("split", ["frame", 1])
@pytest.mark.parametrize("name", ["S02-a", "S02-b", "S02-c"])
async def test_s02_every_legal_line_end_is_read(place, engines, name, split):
    engine = await engines(played(name, split))
    answer = await place.post(chat(stream=True))
    assert content(answer.body) == "Hello"
    [closed] = place.closes()
    assert (closed.input_tokens, closed.output_tokens, closed.outcome) == (4, 2, "complete")
    assert closed.finish_reason == "stop"
    assert len(engine.seen) == 1


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_s04_usage_is_always_asked_for_and_shown_if_wanted(place, engines, path):
    engine = await engines(streamed("a", "b"))
    body = {"model": "chat", "stream": True}
    body |= {"prompt": "x"} if path.endswith("v1/completions") else chat()
    shown = []
    for options in (None, {}, {"include_usage": False}, {"include_usage": True}):
        answer = await place.post({**body, "stream_options": options}, path)
        shown.append([data for data in datas(answer.body) if data.get("usage")])
        assert answer.events()[-1] == b"data: [DONE]"
    assert [len(chunks) for chunks in shown] == [0, 0, 0, 1]
    assert shown[3][0]["choices"] == []
    assert all(seen.body["stream_options"]["include_usage"] is True for seen in engine.seen)
    used = {(closed.input_tokens, closed.output_tokens) for closed in place.closes()}
    assert used == {(7, 2)}


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("S05-a", "frame"),
        ("S05-b", "frame"),
        ("S05-c", "frame"),
        ("S05-d", "frame"),
        ("S05-a", 1),
        ("S05-d", 1),
    ],
)
async def test_s05_usage_is_the_last_snapshot(place, engines, name, split):
    await engines(played(name, split))
    wanted = await place.post(chat(stream=True, stream_options={"include_usage": True}))
    [closed] = place.closes()
    assert (closed.input_tokens, closed.output_tokens) == (26, 12)
    [usage] = [data for data in datas(wanted.body) if data.get("usage")]
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 12)


async def test_s09_an_aborted_stream_is_settled_by_its_last_snapshot(place, engines):
    gate = asyncio.Semaphore(0)
    script = played("S09-a")
    script.gate = gate
    engine = await engines(script)
    async with place.stream(chat(stream=True)) as stream:
        for _ in range(14):
            gate.release()
        await stream.until(b"t12 ")
    await place.until(place.closes)
    [closed] = place.closes()
    assert (closed.outcome, closed.status, closed.input_tokens) == ("client_closed", 499, 31)
    assert 12 <= closed.output_tokens <= engine.seen[0].written
    assert closed.delivered_tokens <= closed.output_tokens
    assert closed.tokens_source == "engine"
    await asyncio.wait_for(engine.seen[0].closed.wait(), 30)


async def test_s09_without_snapshots_what_came_is_counted_and_said_to_be_an_estimate(
    place, engines
):
    body = b"".join(chunk(f"t{n} ") for n in range(1, 21))
    await engines(Script(body, end="hold"))
    async with place.stream(chat(stream=True)) as stream:
        await stream.until(b"t20 ")
    await place.until(place.closes)
    [closed] = place.closes()
    assert closed.tokens_source == "estimated"
    assert closed.output_tokens == pytest.approx(20, rel=0.1)
    assert closed.input_tokens > 0


async def test_s11_the_first_thought_is_the_first_token(place, engines):
    gate = asyncio.Semaphore(2)  # the role, then the first thought
    script = played("S11-a")
    script.gate = gate
    await engines(script)
    async with place.stream(chat(stream=True)) as stream:
        await stream.until(b'"reasoning": "th"')
        place.time.pushed_seconds += 30
        for _ in range(20):
            gate.release()
        await stream.until(b"[DONE]")
    await place.until(place.closes)
    [closed] = place.closes()
    assert closed.first_token_at - closed.started_at < 25
    assert closed.ended_at - closed.started_at > 25


async def test_s11_fields_nobody_knows_reach_the_client(place, engines):
    engine = await engines(played("S11-a"))
    answer = await place.post(chat(stream=True))
    deltas = [data["choices"][0]["delta"] for data in datas(answer.body)]
    assert {"reasoning": "th"} in deltas
    assert {"reasoning_content": "ink"} in deltas
    assert {"x_future": {"k": 1}} in deltas
    assert content(answer.body) == "42"
    sent = engine.scripts[0].body.split(b"\n\n")
    assert answer.events() == [part for part in sent if part and b'"usage"' not in part]
    [closed] = place.closes()
    assert (closed.input_tokens, closed.output_tokens) == (12, 9)


async def test_s12_choices_keep_their_index_and_end_once(place, engines):
    await engines(played("S12-a"))
    answer = await place.post(chat(stream=True, n=2))
    texts, finishes = {0: "", 1: ""}, []
    for data in datas(answer.body):
        for choice in data["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
            finishes += [choice["index"]] if choice["finish_reason"] else []
    assert (texts, sorted(finishes)) == ({0: "ab", 1: "XY"}, [0, 1])
    assert answer.body.count(b"[DONE]") == 1
    assert answer.body.endswith(DONE)
    [closed] = place.closes()
    assert (closed.input_tokens, closed.output_tokens) == (10, 4)


async def test_s12_running_usage_of_each_choice_is_summed_when_the_stream_is_left(place, engines):
    body = b"".join(
        chunk(text, index=index, usage=(10, tokens))
        for index, text, tokens in ((0, "a", 1), (1, "X", 1), (0, "b", 2), (1, "last", 2))
    )
    await engines(Script(body, end="hold"))
    async with place.stream(chat(stream=True, n=2)) as stream:
        await stream.until(b"last")
    await place.until(place.closes)
    assert place.closes()[0].output_tokens == 4


async def test_s15_a_mass_disconnect_stops_nobody_else(place, engines):
    """30 streams of 5 MiB, without any usage, are all left at once."""
    big = b"".join(chunk("x" * 65_000) for _ in range(80))
    engine = await engines(Script(big, end="hold"), slots=100)
    async with contextlib.AsyncExitStack() as streams:
        opened = [
            await streams.enter_async_context(place.stream(chat(stream=True))) for _ in range(30)
        ]
        await asyncio.gather(*[stream.until(b"x" * 60_000) for stream in opened])
        engine.scripts = [answered()]
        for stream in opened:
            stream.writer.transport.abort()
        for _ in range(10):
            ready, small = await asyncio.gather(place.get("/ready"), place.post(chat()))
            assert (ready.status, small.status) == (200, 200)
            assert ready.seconds < 5  # ten times what is borne
    await place.until(lambda: len(place.closes()) == 40, seconds=60)
    left = [closed for closed in place.closes() if closed.outcome == "client_closed"]
    assert len(left) == 30
    assert {closed.tokens_source for closed in left} == {"estimated"}
    assert all(0 < closed.output_tokens <= 80 for closed in left)
