"""Failure cases from the field about clients: gone, slow, hostile, or many at once."""

import asyncio
import gzip
import json

import pytest

from control.gateway.calls.call import Call
from tests.gateway.place import (
    KEY,
    Place,
    Stream,
    chat,
    head_of,
    identity,
    padded,
    replica,
    route,
)
from tests.gateway.upstream import Script, Upstream, answered, chunk, error, streamed

FIRST = chunk(role=True) + chunk("a", usage=(7, 1))


CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
PHASES = [(CHAT, True), (CHAT, False), (COMPLETIONS, True), (COMPLETIONS, False)]


@pytest.mark.parametrize(("path", "stream"), [*PHASES, (EMBEDDINGS, False)])
async def test_s08_the_engine_is_left_at_once_while_it_is_silent(place, engines, stream, path):
    never = asyncio.Event()
    engine = await engines(answered(hold=never))
    async with place.stream(asked(path, stream=stream), path=path):
        await place.until(lambda: engine.seen)
    await asyncio.wait_for(engine.seen[0].closed.wait(), 30)
    await place.until(place.closes)
    [closed] = place.closes()
    assert (closed.outcome, closed.output_tokens) == ("client_closed", 0)
    assert closed.input_tokens > 0  # the engine took the prompt
    await place.until(lambda: engine.connections == 0)
    assert place.shared.replicas._live[1].in_flight == 0


def asked(path: str, *, stream: bool) -> dict:
    if path == EMBEDDINGS:
        return {"model": "chat", "input": "x"}
    given = {"prompt": "x"} if path == COMPLETIONS else chat()
    return {"model": "chat", "stream": stream, **given}


async def nothing_is_left(place, engine) -> None:
    """In flight, at once, open to engines: all is as it was before the call."""
    await place.until(lambda: engine.connections == 0)
    assert place.shared.replicas._live[1].in_flight == 0
    assert not place.shared.calls
    assert not any(place.shared.counters._calls.values())


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_s08_the_engine_is_left_at_once_in_mid_stream(place, engines, path):
    place.know(route(), scopes={"t:1": {"concurrent_calls": 5}})
    gate = asyncio.Semaphore(1 + 3)  # the role, then three of a hundred tokens
    body = chunk(role=True) + b"".join(chunk(f"t{n} ", usage=(7, n)) for n in range(1, 101))
    engine = await engines(Script(body, split="frame", gate=gate, end="hold"))
    async with place.stream(asked(path, stream=True), path=path) as stream:
        await stream.until(b"t3 ")
    await asyncio.wait_for(engine.seen[0].closed.wait(), 30)
    assert engine.seen[0].written <= 1 + 9
    await place.until(place.closes)
    [closed] = place.closes()
    assert (closed.outcome, closed.output_tokens) == ("client_closed", 3)
    await nothing_is_left(place, engine)


@pytest.mark.parametrize(("path", "stream"), [*PHASES, (EMBEDDINGS, False)])
async def test_s08_d_a_half_closed_client_is_taken_as_gone(place, engines, stream, path):
    place.know(route(), scopes={"t:1": {"concurrent_calls": 5}})
    script = Script(FIRST, end="hold") if stream else answered(hold=asyncio.Event())
    engine = await engines(script)
    async with place.stream(asked(path, stream=stream), path=path) as client:
        await (client.until(b'"a"') if stream else place.until(lambda: engine.seen))
        client.writer.write_eof()
        await asyncio.wait_for(engine.seen[0].closed.wait(), 30)
    await place.until(place.closes)
    assert place.closes()[0].outcome == "client_closed"
    await nothing_is_left(place, engine)


async def test_s08_a_client_that_leaves_the_queue_never_reaches_an_engine(place, engines):
    engine = await engines(answered(hold=asyncio.Event()), slots=1)
    async with place.stream(chat()):
        await place.until(lambda: engine.seen)
        async with place.stream(chat()):
            await place.until(lambda: len(place.shared.waiting) == 1)
        await place.until(lambda: len(place.shared.waiting) == 0)
    await place.until(lambda: not place.shared.calls)
    assert len(engine.seen) == len(place.closes()) == 1
    assert place.refusals() == {"client_disconnected": 1}


async def its_end(place, engine, stream, what: str) -> None:
    """Up to where the client leaves, or to what it is told."""
    seen = len(engine.seen)
    if what.startswith("left in"):
        await stream.until(b'"a"')
    elif not what.endswith("engine"):
        await place.until(lambda: len(engine.seen) > seen)
    if what.startswith("hung"):
        place.push(61)
    if not what.startswith("left"):
        await stream.until(b'"error"')


async def test_r01_slots_come_back_however_a_call_ends(place, engines):
    """The lease itself is tested with the real counters; here the local share of them."""
    place.know(route(), scopes={"t:1": {"concurrent_calls": 5}})
    ends = {
        "left in mid stream": Script(FIRST, end="hold"),
        "left before the first token": answered(hold=asyncio.Event()),
        "refused by the engine": error(500),
        "reset by the engine": Script(head=False, end="rst"),
        "hung until its time is up": answered(hold=asyncio.Event()),
    }
    engine = await engines(answered())
    for what, script in ends.items():
        engine.scripts = [script]
        for _ in range(5):
            async with place.stream(chat(stream=True)) as stream:
                await its_end(place, engine, stream, what)
        await place.until(lambda: not place.shared.calls)
        engine.scripts = [answered()]
        place.push(60)
        await place.until(lambda: not place.shared.replicas.ejected())
        for _ in range(5):  # one that was out has to prove itself
            assert (await place.post(chat())).status == 200
        hold = asyncio.Event()
        engine.scripts = [answered(hold=hold)]
        before = len(engine.seen)
        five = [asyncio.create_task(place.post(chat())) for _ in range(5)]
        await place.until(lambda before=before: len(engine.seen) == before + 5)
        sixth = await place.post(chat())
        hold.set()
        assert [answer.status for answer in await asyncio.gather(*five)] == [200] * 5, what
        assert (sixth.status, sixth.error["code"]) == (429, "concurrency_limit_exceeded")
        place.push(3)  # ejected replicas are tried again
    assert place.shared.counters._calls == {}


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "SECRET1234567",
        "Basic SECRET1234567",
        "Bearer",
        "Bearer SECRET1234567",
        "Bearer " + "SECRET1234567" * 100,
    ],
)
async def test_k03_no_refusal_repeats_a_credential(place, engines, authorization, caplog):
    engine = await engines()
    headers = {} if authorization is None else {"authorization": authorization}
    headers |= {"x-api-key": "SECRET1234567", "content-type": "application/json"}
    answer = await place.request(
        "POST", "/v1/chat/completions?key=SECRET1234567", json=chat(), headers=headers
    )
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.error["type"] == "invalid_request_error"
    assert "SECRET1234567" not in answer.body.decode() + str(answer.headers) + caplog.text
    assert not engine.seen


async def test_k03_unknown_and_expired_keys_get_the_same_answer(place, engines):
    await engines()
    unknown = await place.post(chat(), key="weir-unknown")
    expired = place.time.wall() - 1
    place.identities = {d: identity(expires_at=expired) for d in place.identities}
    place.know(route())
    known_but_expired = await place.post(chat())
    assert known_but_expired.error == unknown.error
    assert unknown.error["code"] == "invalid_api_key"


async def test_k03_an_engines_address_is_not_in_its_errors(place, engines):
    engine = await engines(Script(b"<html>http://secret:1/</html>", 500, "text/html"))
    answer = await place.post(chat())
    assert answer.status == 502
    assert b"secret" not in answer.body
    assert str(engine.port).encode() not in answer.body


async def test_h01_bodies_are_decoded_and_limited(tmp_path):
    limits = {"body_bytes": 4096, "decoded_bytes": 8192}
    engine = Upstream(answered())
    async with Place(tmp_path, limits=limits) as place:
        place.know_replicas(replica(1, await engine.start()))
        good = json.dumps(chat()).encode()
        squeezed = gzip.compress(good)
        assert (await place.post(squeezed, content_encoding="gzip")).status == 200
        bomb = gzip.compress(b"0" * 1_000_000)
        refusals = [
            (await place.post(bomb, content_encoding="gzip"), 413, "request_too_large"),
            (await place.post(squeezed[:-3], content_encoding="gzip"), 400, None),
            (await place.post(good, content_encoding="foo"), 415, "unsupported_encoding"),
            (await place.post(good, content_type="text/plain"), 415, "unsupported_encoding"),
        ]
        for answer, status, code in refusals:
            assert (answer.status, answer.error["code"]) == (status, code)
        await engine.stop()


@pytest.mark.parametrize("chunked", [False, True])
async def test_h01_a_body_at_its_limit_passes_and_one_byte_more_does_not(tmp_path, chunked):
    engine = Upstream(answered())
    async with Place(tmp_path, limits={"body_bytes": 4096}) as place:
        place.know_replicas(replica(1, await engine.start()))

        async def post(body: bytes) -> int:
            async def parts():
                yield body[:100]
                yield body[100:]

            headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
            content = parts() if chunked else body
            path = "/v1/chat/completions"
            return (await place.request("POST", path, content=content, headers=headers)).status

        assert [await post(padded(size)) for size in (4095, 4096, 4097)] == [200, 200, 413]
        await engine.stop()


async def test_h01_a_key_is_checked_before_a_large_body_is_read(place, engines):
    async with Stream(place.port, head_of(20_000_000, key="wrong")) as stream:
        got = await stream.until(b"invalid_api_key")  # not one byte of the body was sent
    assert got.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in got


async def test_h03_headers_and_bodies_that_trickle_are_ended(place, engines):
    async with (
        Stream(place.port, b"POST /v1/chat") as in_head,
        Stream(place.port, head_of(1000) + b"{") as in_body,
    ):
        await place.until(lambda: len(place.listener.connections) == 2)
        await place.until(lambda: {c.state for c in place.listener.connections} == {"head", "body"})
        place.push(11)
        for stream in (in_head, in_body):
            got = await stream.until(b"request_timeout")
            assert got.startswith(b"HTTP/1.1 408")
            place.push(3)
            await stream.rest()


async def test_h03_a_stream_has_no_limit_on_its_whole_length(place, engines):
    gate = asyncio.Semaphore(0)
    body = FIRST + chunk("b", usage=(7, 2)) + streamed("c").body
    engine = await engines(Script(body, split=150, gate=gate))
    async with place.stream(chat(stream=True)) as stream:
        for _ in range(20):
            gate.release()
            written = engine.seen[0].written if engine.seen else 0
            await place.until(lambda w=written: engine.seen and engine.seen[0].written >= w)
            await asyncio.sleep(0.03)
            place.push(20)
        await stream.until(b"[DONE]")
    assert place.closes()[0].outcome == "complete"


def _is_full(call) -> bool:
    return isinstance(call, Call) and call._delivery.is_full


async def test_h03_a_client_that_does_not_read_is_ended_and_recorded(place, engines):
    text = "x" * 60_000
    body = b"".join(chunk(text, usage=(7, n)) for n in range(1, 101))
    engine = await engines(Script(body, end="hold", split=60_000))
    async with place.stream(chat(stream=True)) as stream:
        stream.writer.transport.pause_reading()
        stream.reader._limit = 1
        await place.until(lambda: any(map(_is_full, place.shared.calls)))
        [call] = place.shared.calls
        assert call._delivery._pending_bytes < place.limits.buffer_bytes + 2 * len(text)
        place.push(29)
        assert not call.ended
        place.push(2)
        assert call.ended
    await asyncio.wait_for(engine.seen[0].closed.wait(), 30)
    [closed] = place.closes()
    assert closed.outcome == "slow_client"
    assert 0 < closed.delivered_tokens < closed.output_tokens
