"""A replica that dies in mid-answer does not end the answer: another one goes on with it."""

import asyncio
import json
from functools import partial

import pytest

from control.gateway.bodies import wire
from control.gateway.calls.continuation import is_same, why_not
from engines.stub.app import Options, Stub
from engines.stub.http import Connection
from engines.stub.script import Script, read_script
from tests.gateway.place import chat, replica, route
from tests.gateway.streams.test_cases import content, datas
from tests.gateway.upstream import DONE

TOKENS = 12
WHOLE = " ".join(f"t{number}" for number in range(1, TOKENS + 1))
USAGE = {"stream_options": {"include_usage": True}}


class Engine:
    """A stub engine in this process."""

    def __init__(self) -> None:
        defaults = Script(ttft_seconds=0, token_seconds=0.001, tokens=TOKENS)
        self.stub = Stub(Options("chat", "", 512, 8, 4096, defaults))
        self.tasks: set[asyncio.Task] = set()

    async def start(self) -> int:
        loop = asyncio.get_running_loop()
        made = partial(Connection, self.stub, self.tasks)
        self.server = await loop.create_server(made, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self.server.close()
        for task in tuple(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def plays(self, **script) -> None:
        self.stub.scripts.add(read_script(script), 1)

    @property
    def bodies(self) -> list[dict]:
        return [seen["body"] for seen in self.stub._seen]


@pytest.fixture
async def stubs(place):
    """Stub engines as replicas, the first of which is asked first."""
    started: list[Engine] = []

    async def start(*changes: dict) -> list[Engine]:
        infos = []
        for number, change in enumerate(changes, 1):
            engine = Engine()
            started.append(engine)
            given = {"engine": "stub"} | change
            infos.append(replica(number, await engine.start(), **given))
        place.know_replicas(*infos)
        return started

    yield start
    for engine in started:
        await engine.stop()


class Faults:
    """One fault, played by whichever engine is asked first."""

    def __init__(self, engines, *scripts: dict) -> None:
        rows = [read_script(script) for script in scripts]
        for engine in engines:
            engine.stub.scripts.take = lambda: rows.pop(0) if rows else Script()


async def post(place, path: str = "/v1/chat/completions", **members):
    body = chat(stream=True, **members)
    if path == "/v1/completions":
        body = {"model": "chat", "prompt": "hello", "stream": True, **members}
    return await place.post(body, path)


def text_of(body: bytes) -> str:
    choices = [choice for data in datas(body) for choice in data.get("choices", ())]
    return "".join(
        choice["text"] if "text" in choice else choice["delta"].get("content") or ""
        for choice in choices
    )


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize("how", ["rst", "fin", "error"])
async def test_the_answer_is_the_same_as_if_nothing_had_been_lost(place, stubs, path, how):
    one, two = await stubs({}, {})
    untouched = await post(place, path, **USAGE, max_tokens=64)
    Faults((one, two), {"fail_after_tokens": 5, "fail_with": how})
    answer = await post(place, path, **USAGE, max_tokens=64)
    assert text_of(answer.body) == text_of(untouched.body) == WHOLE
    assert b"error" not in answer.body
    assert answer.body.endswith(DONE)
    assert answer.body.count(b"[DONE]") == 1
    got = datas(answer.body)
    assert len({(data["id"], data["created"], data["model"], data["object"]) for data in got}) == 1
    assert sum("role" in c.get("delta", ()) for data in got for c in data["choices"]) <= 1
    assert b"token_ids" not in answer.body.replace(b'"token_ids":null', b"")
    finishes = [c["finish_reason"] for data in got for c in data["choices"] if c["finish_reason"]]
    assert finishes == ["stop"]
    usage = got[-1]["usage"]
    assert usage["completion_tokens"] == TOKENS
    assert usage["prompt_tokens"] == datas(untouched.body)[-1]["usage"]["prompt_tokens"]
    _, closed = place.closes()
    assert (closed.outcome, closed.attempts, closed.output_tokens) == ("complete", 2, TOKENS)
    assert closed.input_tokens == usage["prompt_tokens"]
    [lost] = closed.tries  # the second prefill is the platform's
    assert (lost.input_tokens, lost.output_tokens) == (closed.input_tokens + 5, 0)
    chosen = {one["replica"]: len(one["figures"]) for one in closed.trace.decisions}
    assert chosen == {1: 2, 2: 2}  # both choices, with the figures of their moments
    assert len(place.opens()) == len(place.closes()) == 2


async def test_the_other_engine_is_asked_for_what_is_left_with_the_same_members(place, stubs):
    one, two = await stubs({}, {})
    Faults((one, two), {"fail_after_tokens": 5, "fail_with": "rst"})
    answer = await post(place, temperature=0, top_p=0.5, max_tokens=8, min_tokens=6)
    assert text_of(answer.body) == " ".join(WHOLE.split()[:8])
    first, second = sorted(one.bodies + two.bodies, key=lambda body: "prompt" in body)
    assert (first["max_tokens"], first["return_token_ids"]) == (8, True)
    assert second["max_tokens"] == 3
    assert second["min_tokens"] == 1
    assert (second["temperature"], second["top_p"]) == (0, 0.5)
    assert second["prompt"][-5:] == [1_000_000 + number for number in range(5)]
    assert "messages" not in second


async def test_without_a_maximum_the_engine_says_how_much_its_context_holds(place, stubs):
    """A completion's default would be 16 tokens, null too."""
    one, two = await stubs({}, {})
    Faults((one, two), {"fail_after_tokens": 5, "fail_with": "rst", "tokens": 40}, {"tokens": 40})
    answer = await post(place)
    assert text_of(answer.body) == " ".join(f"t{number}" for number in range(1, 41))
    asked = [body for body in one.bodies + two.bodies if "prompt" in body]
    assert [body["max_tokens"] for body in asked] == [10_000_000, 512]
    [closed] = place.closes()
    assert (closed.outcome, closed.output_tokens, len(closed.tries)) == ("complete", 40, 1)
    assert [live.failures for live in place.shared.replicas._live.values()].count(0) == 1


async def test_a_completion_without_a_maximum_has_sixteen_tokens_in_all(place, stubs):
    one, two = await stubs({}, {})
    Faults((one, two), {"fail_after_tokens": 5, "fail_with": "rst"})
    await post(place, "/v1/completions")
    assert sorted(body.get("max_tokens", 0) for body in one.bodies + two.bodies) == [0, 11]


async def test_a_tenant_that_asked_for_token_ids_gets_all_of_them(place, stubs):
    one, two = await stubs({}, {})
    Faults((one, two), {"fail_after_tokens": 5, "fail_with": "rst"})
    answer = await post(place, return_token_ids=True)
    choices = [choice for data in datas(answer.body) for choice in data["choices"]]
    ids = [id_ for choice in choices for id_ in choice.get("token_ids") or ()]
    assert ids == [1_000_000 + number for number in range(TOKENS)]


async def test_a_second_loss_is_borne_too_and_a_third_ends_the_answer(place, stubs):
    engines = await stubs({}, {}, {}, {})
    lost = {"fail_after_tokens": 3, "fail_with": "rst"}
    Faults(engines, lost, lost)
    assert text_of((await post(place)).body) == WHOLE
    place.push(60)
    Faults(engines, lost, lost, lost)
    answer = await post(place)
    assert text_of(answer.body) == " ".join(WHOLE.split()[:9])
    assert datas(answer.body)[-1]["error"]["code"] == "upstream_error"
    assert [closed.output_tokens for closed in place.closes()] == [TOKENS, 9]


async def test_a_budget_of_retries_that_is_spent_ends_the_answer(place, stubs):
    engines = await stubs({}, {})
    while place.shared.replicas.retries.spend():
        pass
    Faults(engines, {"fail_after_tokens": 5, "fail_with": "rst"})
    answer = await post(place)
    assert datas(answer.body)[-1]["error"]["code"] == "upstream_error"
    assert len(engines[0].bodies) + len(engines[1].bodies) == 1


async def test_if_the_other_cannot_go_on_the_answer_ends_with_one_error(place, stubs):
    engines = await stubs({}, {})
    Faults(engines, {"fail_after_tokens": 5, "fail_with": "rst"}, {"status": 400})
    answer = await post(place)
    assert content(answer.body) == " ".join(WHOLE.split()[:5])
    assert answer.body.count(b'"error"') == 1
    assert b"[DONE]" not in answer.body
    [closed] = place.closes()
    assert (closed.outcome, closed.output_tokens) == ("truncated", 5)


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
NOT_GONE_ON_WITH = {
    "two choices": ({"n": 2}, {}),
    "tools": ({"tools": [{"type": "function", "function": {"name": "f"}}]}, {}),
    "a schema": ({"response_format": {"type": "json_object"}}, {}),
    "structured outputs": ({"structured_outputs": {"choice": ["a"]}}, {}),
    "logprobs": ({"logprobs": True}, {}),
    "a penalty": ({"presence_penalty": 0.5}, {}),
    "a repetition penalty": ({"repetition_penalty": 1.1}, {}),
    "a seed with a temperature": ({"seed": 7, "temperature": 0.5}, {}),
    "a stop word that the engine holds text back for": ({"stop": "END"}, {}),
    "the route says so": ({}, {"on_replica_loss": "end"}),
}


@pytest.mark.parametrize("why", NOT_GONE_ON_WITH)
async def test_t04_d_where_it_cannot_go_on_there_is_one_error_and_no_second_replica(
    place, stubs, why
):
    members, of_route = NOT_GONE_ON_WITH[why]
    place.know(route(**of_route))
    one, two = await stubs({}, {})
    Faults((one, two), {"fail_after_tokens": 5, "fail_with": "rst"})
    answer = await post(place, **members)
    assert answer.status == 200
    assert datas(answer.body)[-1]["error"]["code"] == "upstream_error"
    assert answer.body.count(b'"error"') == 1
    assert b"[DONE]" not in answer.body
    [body] = one.bodies + two.bodies
    assert "return_token_ids" not in body
    [closed] = place.closes()
    made = 6 if why == "two choices" else 5  # both choices' third tokens come together
    assert (closed.outcome, closed.attempts, closed.output_tokens) == ("truncated", 1, made)


@pytest.mark.parametrize(
    "changes",
    [({}, {"version_id": 4}), ({}, {"engine": "external"}), ({"engine": "external"}, {})],
)
async def test_only_the_same_version_goes_on_and_only_engines_that_tell_ids(place, stubs, changes):
    engines = await stubs(*changes)
    Faults(engines, {"fail_after_tokens": 5, "fail_with": "rst"})
    answer = await post(place)
    assert datas(answer.body)[-1]["error"]["code"] == "upstream_error"
    assert len(engines[0].bodies) + len(engines[1].bodies) == 1


async def test_what_a_reasoning_parser_took_apart_is_not_gone_on_with(place, stubs):
    engines = await stubs({}, {})
    Faults(engines, {"fail_after_tokens": 5, "fail_with": "rst", "reasoning_tokens": 3})
    answer = await post(place)
    assert datas(answer.body)[-1]["error"]["code"] == "upstream_error"
    assert len(engines[0].bodies) + len(engines[1].bodies) == 1


async def test_a_held_back_beginning_of_a_stop_word_is_not_gone_on_with(place, stubs):
    place.know(route(stop=(*(chr(0x4E00 + n) for n in range(64)), "t5 t6")))
    engines = await stubs({}, {})
    Faults(engines, {"fail_after_tokens": 5, "fail_with": "rst"})
    answer = await post(place)
    assert datas(answer.body)[-1]["error"]["code"] == "upstream_error"
    Faults(engines, {"fail_after_tokens": 4, "fail_with": "rst"})
    place.push(60)
    answer = await post(place)
    assert text_of(answer.body) == "t1 t2 t3 t4 "  # and the word is found in what came after
    assert b"error" not in answer.body


def test_versions_are_the_same_by_id_or_by_both_names():
    one = replica(1, 1, engine="vllm", model="gemma", version="v1")
    assert is_same(one, replica(2, 1, engine="vllm"))
    named = {"engine": "vllm", "version_id": 9, "model": "gemma"}
    assert is_same(one, replica(2, 1, **named, version="v1"))
    assert not is_same(one, replica(2, 1, **named, version="v2"))
    assert not is_same(replica(1, 1), replica(2, 1, engine="vllm", version_id=9))


@pytest.mark.parametrize(
    ("members", "stop", "why"),
    [
        ({}, (), None),
        ({"seed": 1, "temperature": 0}, ("\n",), None),
        ({"response_format": {"type": "text"}, "tools": [], "logprobs": False}, (), None),
        ({"frequency_penalty": 0}, (), None),
        ({"seed": 1}, (), "it has a seed and a temperature"),
        ({}, ("END",), "its engine holds text back, for a stop word"),
        ({"include_reasoning": False}, (), "its reasoning is hidden"),
        (
            {"messages": [{"role": "user", "content": [IMAGE]}]},
            (),
            "it has more than text",
        ),
    ],
)
def test_why_a_call_could_not_be_gone_on_with(members, stop, why):
    body = json.dumps(chat() | members).encode()
    ask = wire.parse("chat.completions", body, depth_max=64)
    assert why_not(ask, stop) == why
