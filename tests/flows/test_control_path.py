"""From service.yaml to a drained engine on a real `weir up`, with real kill -9 in between."""

import json
import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.flows.books import books_balance
from tests.flows.weir import Weir, is_alive, until
from tests.threads import Threads

SERVICE = """
apiVersion: weir/v1
tenants:
  - name: acme
    keys: [{name: ci, secret_env: ACME_KEY}]
models:
  - name: stub
    versions:
      - name: v1
        engine: {kind: stub}
        arguments: {max_model_len: 2048, tokens: 20, token_seconds: 0.1}
deployments:
  - {name: stub, model: stub, version: v1, replicas: {min: REPLICAS, max: REPLICAS}}
routes:
  - {name: chat-stub, targets: [{deployment: stub, weight: 100}]}
"""
CHAT = {"model": "chat-stub", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def weir():
    made = Weir(SERVICE.replace("REPLICAS", "1"))
    try:
        yield made.with_schema().start()
    finally:
        made.clean_up()


def wants(weir: Weir, replicas: int) -> None:
    file = Path(weir.folder) / f"{replicas}.yaml"
    file.write_text(SERVICE.replace("REPLICAS", str(replicas)))
    done = weir.weir("apply", "-f", str(file), "--yes")
    assert done.returncode == 0, done.stderr


def the_replica(weir: Weir, state: str = "ready") -> tuple | None:
    query = "SELECT id, pid, generation FROM control_replica WHERE state = %s ORDER BY id DESC"
    return next(iter(weir.rows(query, state)), None)


def events(weir: Weir) -> list[str]:
    return [row[0] for row in weir.rows("SELECT outcome FROM control_usageevent ORDER BY id")]


def event_count(weir: Weir) -> int:
    return len(events(weir))


def chat(weir: Weir) -> int:
    with weir.client() as client:
        return client.post("/v1/chat/completions", json=CHAT).status_code


def test_a_call_reaches_the_engine_and_ends_in_one_event(weir):
    before = event_count(weir)
    assert chat(weir) == 200
    books_balance(weir, before + 1)
    assert events(weir)[-1] == "complete"


def test_a_key_reads_what_it_used_at_the_gateway(weir):
    with weir.client() as client:
        answer = client.get("/v1/usage", params={"group_by": "key,model"})
        assert answer.status_code == 200, answer.text
        [row] = answer.json()["data"]
        assert (row["key"], row["model"], row["calls"]) == ("ci", "stub", event_count(weir))
        wrong = client.get("/v1/usage", params={"month": "May"})
        assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "month")


def test_the_node_worker_killed_while_a_call_runs_adopts_the_engine(weir):
    before = event_count(weir)
    _, engine, _ = the_replica(weir)
    node = weir.pids()["node"]
    with (
        weir.client() as client,
        client.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        os.kill(node, signal.SIGKILL)
        assert [line for line in lines if line][-1] == "data: [DONE]"
    until(lambda: weir.pids().get("node") not in (None, node), "a new node worker")
    until(lambda: is_alive(weir.pids()["node"]), "a node worker that lives")
    # It has looked: its heartbeat is younger than its start.
    begun = weir.rows("SELECT clock_timestamp()")[0][0]
    beat = "SELECT heartbeat_at FROM control_node"
    until(lambda: weir.rows(beat)[0][0] > begun, "a heartbeat of the new worker")
    assert the_replica(weir)[1] == engine
    books_balance(weir, before + 1)


def test_an_engine_killed_while_a_call_runs_is_replaced(weir):
    before = event_count(weir)
    first, engine, generation = the_replica(weir)
    with (
        weir.client() as client,
        client.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        os.kill(engine, signal.SIGKILL)
        said = list(lines)
    assert any("error" in line for line in said)
    until(lambda: (the_replica(weir) or (first,))[0] != first, "another replica")
    assert the_replica(weir)[2] == generation + 1
    weir.wait_until_ready()
    assert until(lambda: chat(weir) == 200, "an answer of the new engine")
    books = books_balance(weir)
    assert len(books.events) >= before + 2
    assert "truncated" in events(weir)


def tell(weir: Weir, replica: int, **order: object) -> None:
    """The stub engine of that replica."""
    ((host, port),) = weir.rows("SELECT host, port FROM control_replica WHERE id = %s", replica)
    httpx.post(f"http://{host}:{port}/stub/script", json=order, timeout=30).raise_for_status()


def test_e06_a_drained_engine_ends_its_call_first_and_then_is_gone(weir):
    before = event_count(weir)
    replica, engine, _ = the_replica(weir)
    tell(weir, replica, script={"hold_after_tokens": 1})
    with (
        weir.client() as client,
        client.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        wants(weir, 0)
        until(lambda: the_replica(weir, "draining"), "a replica that drains")
        tell(weir, replica, go_on=True)
        said = [line for line in lines if line]
    assert said[-1] == "data: [DONE]"
    until(lambda: not is_alive(engine), "an engine that is gone")
    until(lambda: the_replica(weir, "stopped"), "a replica that is stopped")
    books = books_balance(weir, before + 1)
    assert books.booked == set()
    assert events(weir)[-1] == "complete"


def test_wanted_again_it_comes_back(weir):
    wants(weir, 1)
    weir.wait_until_ready()
    assert until(lambda: chat(weir) == 200, "an answer")
    status = json.loads(weir.weir("status", "--json").stdout)
    assert status["deployments"][0]["ready"] == 1
    books_balance(weir)


def test_a_model_at_zero_is_started_by_the_calls_that_wait_for_it(weir):
    """Eight at once: one launch, and all of them are answered."""
    wants(weir, 0)
    until(lambda: not the_replica(weir), "no replica that serves")
    launched = weir.rows("SELECT count(*) FROM control_replica")[0][0]
    file = Path(weir.folder) / "from-zero.yaml"
    file.write_text(SERVICE.replace("min: REPLICAS, max: REPLICAS", "min: 0, max: 3"))
    assert weir.weir("apply", "-f", str(file), "--yes").returncode == 0
    body = CHAT | {"stream": True}
    with weir.client() as client, Threads(8) as threads:
        calls = [threads.submit(client.post, "/v1/chat/completions", json=body) for _ in range(8)]
        assert {call.result().status_code for call in calls} == {200}
    assert weir.rows("SELECT count(*) FROM control_replica")[0][0] == launched + 1
