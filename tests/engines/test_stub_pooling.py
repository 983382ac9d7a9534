"""The stub embeds, ranks and scores as vLLM's pooling models do, through a gateway too."""

from collections.abc import Iterator

import httpx
import openai
import pytest

from tests.engines.stub import AUTHORISED, KEY, StubEngine, running_stub
from tests.gateway.place import KEY as TENANT
from tests.gateway.place import Place, chat, replica


@pytest.fixture(scope="module")
def engine() -> Iterator[StubEngine]:
    with running_stub("--api-key", KEY, "--max-model-len", "64") as started:
        yield started


@pytest.fixture(autouse=True)
def _fresh(engine):
    engine.order(clear=True)


def test_embeddings_are_of_length_one_and_the_same_each_time(engine):
    client = openai.OpenAI(base_url=f"{engine.url}/v1", api_key=KEY, max_retries=0)
    texts = ["a cat sat", "a cat sat down", "stock markets fell"]
    first = client.embeddings.create(model="m", input=texts)
    again = client.embeddings.create(model="m", input=texts, encoding_format="float")
    vectors = [one.embedding for one in first.data]
    assert [one.embedding for one in again.data] == [
        pytest.approx(vector, abs=1e-6) for vector in vectors
    ]
    assert sum(value * value for value in vectors[0]) == pytest.approx(1, abs=1e-5)
    near = sum(a * b for a, b in zip(vectors[0], vectors[1], strict=True))
    far = sum(a * b for a, b in zip(vectors[0], vectors[2], strict=True))
    assert near > far
    assert first.usage.prompt_tokens == 3 + 4 + 3
    sized = client.embeddings.create(model="m", input=[1, 2, 3], dimensions=8)
    assert (len(sized.data[0].embedding), sized.usage.prompt_tokens) == (8, 3)


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank", "/rerank"])
def test_the_likest_document_comes_first(engine, path):
    documents = ["stock markets fell", {"text": "a cat sat"}, "nothing"]
    got = engine.post({"query": "a cat", "documents": documents, "top_n": 2}, path).json()
    assert [result["index"] for result in got["results"]][0] == 1
    assert len(got["results"]) == 2
    assert got["results"][0]["document"]["text"] == "a cat sat"
    assert got["usage"]["prompt_tokens"] == 5 + 5 + 3


def test_scores_are_one_to_one_or_one_to_many(engine):
    got = engine.post({"text_1": "a cat", "text_2": ["a cat", "fish"]}, "/v1/score").json()
    assert got["data"][0]["score"] == pytest.approx(1)
    assert got["data"][1]["score"] < 1
    wrong = engine.post({"text_1": ["a", "b"], "text_2": ["c", "d", "e"]}, "/v1/score")
    assert wrong.status_code == 400


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "other", "input": "a"}, 404),
        ({"model": "m"}, 400),
        ({"model": "m", "input": "x " * 65}, 400),
    ],
)
def test_bad_calls_are_refused_as_vllm_does(engine, body, status):
    assert engine.post(body, "/v1/embeddings").status_code == status


def test_a_script_makes_it_fail(engine):
    engine.script(status=503)
    assert engine.post({"input": "a"}, "/v1/embeddings").status_code == 503
    answer = httpx.post(f"{engine.url}/v1/embeddings", json={"input": "a"}, timeout=10)
    assert answer.status_code == 401


async def test_all_of_it_through_a_gateway(engine, tmp_path):
    async with Place(tmp_path) as place:
        place.know_replicas(replica(1, engine.port, engine="stub", served_name="m"), keys={1: KEY})
        calls = {
            "/v1/embeddings": {"model": "chat", "input": ["one two", "three"]},
            "/v1/rerank": {"model": "chat", "query": "a b", "documents": ["c", "d"]},
            "/v1/score": {"model": "chat", "text_1": "a", "text_2": ["b", "c"]},
            "/v1/messages/count_tokens": {"model": "chat", "messages": chat()["messages"]},
            "/v1/responses": {"model": "chat", "input": "one two three"},
        }
        for path, body in calls.items():
            answer = await place.post(body, path, key=TENANT)
            assert answer.status == 200, (path, answer.body)
        closes = [(c.endpoint, c.input_tokens, c.output_tokens > 0) for c in place.closes()]
    assert closes == [
        ("embeddings", 3, False),
        ("rerank", 6, False),
        ("score", 4, False),
        ("messages.count_tokens", 0, False),
        ("responses", 3, True),
    ]
    seen = engine.seen()["requests"]
    salted = [one["body"].get("cache_salt") is not None for one in seen[-4:]]
    assert salted == [False, False, False, True]
    assert AUTHORISED["authorization"] not in str(seen)
