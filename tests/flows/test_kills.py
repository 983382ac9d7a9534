"""kill -9 of each process of a real `weir up`, calls running: it heals, and the books balance."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import psutil
import pytest

from tests.flows.books import books_balance
from tests.flows.drift import engines_agree
from tests.flows.traffic import CHAT, Traffic, traffic
from tests.flows.weir import HANG_SECONDS, Weir, is_alive, until

SERVICE = """
apiVersion: weir/v1
tenants:
  - name: acme
    limits: {requests_per_minute: 60000, concurrent_calls: 64}
    keys: [{name: ci, secret_env: ACME_KEY}]
models:
  - name: stub
    versions:
      - name: v1
        engine: {kind: stub}
        arguments: {max_model_len: 2048, tokens: 20, token_seconds: 0.05}
deployments:
  - {name: stub, model: stub, version: v1, replicas: {min: 1, max: 1}}
routes:
  - {name: chat-stub, targets: [{deployment: stub, weight: 100}]}
prices:
  - {model: stub, currency: USD, per_million: {input: "0.10", cached_input: "0.02", output: "0.40"}}
"""
LIMITS = '{"lease_seconds": 6}'  # of a killed gateway, waited for at each look at the books
LOST = 12  # calls at an engine that dies: more than may be tried again at once
NO_CALL_NOTICES = ("web", "control", "scheduler", "node", "valkey", "postgres")


@pytest.fixture(scope="module")
def weir():
    made = Weir(SERVICE, WEIR_GATEWAY_PROCESSES="2", WEIR_GATEWAY_LIMITS=LIMITS)
    try:
        yield made.with_schema().start()
    finally:
        made.clean_up()


def settled(weir: Weir, calls: Traffic) -> None:
    """Every call known to be admitted has its one event, and nothing is held any more."""
    until(lambda: calls.admitted <= set(books_balance(weir).events), "an event of each call")
    rows = weir.rows("SELECT call_id, outcome FROM control_usageevent")
    new = {call_id: outcome for call_id, outcome in rows if call_id not in calls.before}
    assert len(new) <= len(calls.calls)
    assert {new[call.id] for call in calls.calls if call.whole} == {"complete"}


def another(weir: Weir, name: str, than: int) -> int:
    def found() -> int:
        pid = weir.pids().get(name, than)
        return pid if pid != than and is_alive(pid) else 0

    return until(found, f"another {name}")


def engine_pids(weir: Weir) -> set[int]:
    return {record["pid"] for record in weir.engines().values()}


def console_answers(weir: Weir) -> bool:
    try:
        return httpx.get(f"{weir.console_url}/health", timeout=30).status_code == 200
    except httpx.HTTPError:
        return False


def heartbeat_after_now(weir: Weir) -> None:
    [(begun,)] = weir.rows("SELECT clock_timestamp()")
    beat = "SELECT max(heartbeat_at) FROM control_node"
    until(lambda: weir.rows(beat)[0][0] > begun, "a heartbeat of the node")


@pytest.mark.parametrize("name", NO_CALL_NOTICES)
def test_no_call_notices_the_death_of(weir, name):
    engines, old = engine_pids(weir), weir.pids()[name]
    with traffic(weir) as calls:
        os.kill(old, signal.SIGKILL)
        another(weir, name, old)
        calls.wait_for_answers()
    assert calls.broken == []
    until(lambda: console_answers(weir), "the console")
    heartbeat_after_now(weir)
    settled(weir, calls)
    assert engine_pids(weir) == engines


def test_a_gateway_worker_takes_only_its_own_calls_along(weir):
    worker, other = weir.gateway_workers()
    with traffic(weir, streams=6) as calls:
        os.kill(worker, signal.SIGKILL)
        until(lambda: len(set(weir.gateway_workers()) - {worker}) == 2, "another worker")
        calls.wait_for_answers()
    assert other in weir.gateway_workers()
    settled(weir, calls)
    outcomes = dict(weir.rows("SELECT call_id, outcome FROM control_usageevent"))
    begun = [(call, outcomes.get(call.id)) for call in calls.broken if call.status]
    assert [one for one in begun if one[1] != "lost"] == []


def test_no_call_notices_the_death_of_the_gateways_parent(weir):
    old, workers = weir.pids()["gateway"], weir.gateway_workers()
    with traffic(weir) as calls:
        os.kill(old, signal.SIGKILL)
        another(weir, "gateway", old)
        until(lambda: not any(map(is_alive, workers)), "workers that go when others serve")
        calls.wait_for_answers()
    assert calls.broken == []
    settled(weir, calls)
    assert not set(workers) & set(weir.gateway_workers())


def test_a_killed_engine_is_replaced(weir):
    [old] = engine_pids(weir)
    with traffic(weir) as calls:
        os.kill(old, signal.SIGKILL)
        until(lambda: engine_pids(weir) - {old}, "another engine")
        calls.wait_for_answers()
    settled(weir, calls)
    assert old not in engine_pids(weir)


def asked(weir: Weir, number: int) -> int:
    """The status of a stream's answer, whole; no two prompts are alike."""
    words = {"messages": [{"role": "user", "content": f"call {number} of a lost engine"}]}
    with weir.client() as client:
        answer = client.post("/v1/chat/completions", json=CHAT | words | {"stream": True})
    return answer.status_code if answer.text.rstrip().endswith("data: [DONE]") else 0


def test_all_calls_of_a_killed_engine_are_answered_by_the_next(weir):
    """None of them had a token, and waiting for a launch is no retry."""
    weir.wait_until_ready()
    [old] = engine_pids(weir)
    [(host, port)] = weir.rows("SELECT host, port FROM control_replica WHERE state = 'ready'")
    script = {"script": {"ttft_seconds": 1000}, "times": LOST}
    with (
        httpx.Client(base_url=f"http://{host}:{port}/stub", timeout=30) as engine,
        ThreadPoolExecutor(LOST) as pool,
    ):
        engine.post("/script", json=script).raise_for_status()
        calls = [pool.submit(asked, weir, number) for number in range(LOST)]
        try:
            until(lambda: engine.get("/seen").json()["running"] == LOST, "all calls at it")
        finally:
            os.kill(old, signal.SIGKILL)
        assert {call.result() for call in calls} == {200}
    books_balance(weir)


def tracebacks(weir: Weir) -> int:
    """In the logs of all that asks the database on its own account."""
    logs = [weir.home.logs / f"{name}.log" for name in ("control", "node", "gateway")]
    return sum(log.read_text(errors="replace").count("Traceback") for log in logs)


def test_calls_go_on_without_postgresql_and_their_usage_arrives_afterwards(weir):
    said = tracebacks(weir)
    postgres = psutil.Process(weir.pids()["postgres"])
    stopped = [*postgres.children(), postgres]
    with traffic(weir) as calls:
        for process in stopped:
            process.suspend()
        calls.wait_for_answers()
        calls.wait_for_answers()
        for process in stopped:
            process.resume()
        for _ in range(2):
            old = weir.pids()["postgres"]
            with suppress(ProcessLookupError):  # the first one's memory was still in use
                os.kill(old, signal.SIGKILL)
            another(weir, "postgres", old)
        calls.wait_for_answers()
    assert calls.broken == []
    settled(weir, calls)
    assert tracebacks(weir) == said


def test_calls_go_on_while_valkey_does_not_answer(weir):
    valkey = psutil.Process(weir.pids()["valkey"])
    with traffic(weir) as calls:
        valkey.suspend()
        calls.wait_for_answers()
        valkey.resume()
        calls.wait_for_answers()
    assert calls.broken == []
    settled(weir, calls)


def test_a_revoked_key_is_refused_by_every_gateway_process(weir):
    made = weir.weir("key", "create", "--tenant", "acme", "--name", "short-lived")
    secret = made.stdout.strip()

    def statuses() -> set[int]:
        """Of several connections, as the kernel spreads them over the processes."""
        headers = {"Authorization": f"Bearer {secret}"}
        url = f"{weir.gateway_url}/v1/models"
        return {httpx.get(url, headers=headers, timeout=30).status_code for _ in range(10)}

    until(lambda: statuses() == {200}, "a key that works everywhere")
    revoked = weir.weir("key", "revoke", "--tenant", "acme", "--name", "short-lived")
    assert revoked.returncode == 0, revoked.stderr
    until(lambda: statuses() == {401}, "a key that is refused everywhere")


def test_a_killed_supervisor_starts_again_and_the_engines_answer_at_once(weir):
    engines = engine_pids(weir)
    with traffic(weir) as calls:
        weir.kill_supervisor()
        for process in weir.processes():
            with suppress(psutil.NoSuchProcess):  # it has ended since
                assert process.ppid() in (1, *engines)
        weir.start()
        calls.wait_for_answers()
    assert engine_pids(weir) == engines
    settled(weir, calls)


def test_engines_kept_by_down_answer_at_once_after_the_next_up(weir):
    engines = engine_pids(weir)
    with traffic(weir) as calls:
        weir.stop("--keep-engines")
        assert not weir.home.is_claimed()
        weir.start()
        calls.wait_for_answers()
    assert engine_pids(weir) == engines
    settled(weir, calls)


def test_ctrl_c_lets_running_streams_end_and_leaves_no_process(weir):
    with traffic(weir) as calls:
        in_flight = set(calls.open_streams)
        weir.process.send_signal(signal.SIGINT)
        assert weir.process.wait(HANG_SECONDS) == 0
        calls.stop()
    assert weir.processes() == []
    assert in_flight <= {call.id for call in calls.calls if call.whole}
    weir.start()
    settled(weir, calls)


def test_whatever_was_killed_engines_counted_what_the_books_say(weir):
    """The last of these: one engine was killed, and calls of it were cut."""
    hours = engines_agree(weir)
    assert len({hour["replica_id"] for hour in hours}) > 1
    assert sum(hour["engine"]["output"] for hour in hours) > 0
