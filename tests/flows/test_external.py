"""An engine that Weir did not launch: probed, called with its key, metered, judged, taken away."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from os import environ, kill

import httpx
import pytest

from control.management.local.ports import free_port
from tests.flows.books import books_balance
from tests.flows.weir import HANG_SECONDS, Weir, until
from tests.servers import ROOT

KEY = "a-key-of-theirs"
REFUSED = "Connection refused"
SERVICE = """
apiVersion: weir/v1
tenants:
  - name: acme
    keys: [{name: ci, secret_env: ACME_KEY}]
models:
  - name: outside
    versions:
      - name: v1
        engine: {kind: external, url: "http://127.0.0.1:PORT", served_name: m, api_key_env: THEIRS}
        arguments: {max_model_len: 2048}
SERVED
prices:
  - {model: outside, currency: USD, per_million: {input: "0.10", output: "0.40"}}
"""
SERVED = """
deployments:
  - {name: outside, model: outside, version: v1}
routes:
  - {name: chat, targets: [{deployment: outside}]}
"""
CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hello there"}]}


@dataclass
class Outside:
    """The engine of somebody else: always at the same address, started and ended by hand."""

    port: int = field(default_factory=free_port)
    process: subprocess.Popen | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        argv = [sys.executable, "-m", "engines.stub", "--port", str(self.port)]
        argv += ["--served-name", "m", "--api-key", KEY, "--token-seconds", "0.02"]
        self.process = subprocess.Popen(argv, cwd=ROOT, env=environ | {"WEIR_ALLOW_STUB": "1"})

    def end(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(HANG_SECONDS)

    def answer_past_weir(self, tokens: int) -> None:
        script = {"script": {"tokens": tokens, "token_seconds": 0.0}}
        httpx.post(f"{self.url}/stub/script", json=script, timeout=30).raise_for_status()
        body = CHAT | {"model": "m", "max_tokens": tokens}
        head = {"authorization": f"Bearer {KEY}"}
        path = f"{self.url}/v1/chat/completions"
        httpx.post(path, json=body, headers=head, timeout=HANG_SECONDS).raise_for_status()


@pytest.fixture(scope="module")
def outside():
    made = Outside()
    yield made
    made.end()


@pytest.fixture(scope="module")
def weir(outside):
    made = Weir(service(outside, SERVED), THEIRS=KEY)
    try:
        yield made.with_schema().start(ready=False)
    finally:
        made.clean_up()


def service(outside: Outside, served: str) -> str:
    return SERVICE.replace("PORT", str(outside.port)).replace("SERVED", served)


def replica(weir: Weir) -> tuple[str, str]:
    rows = weir.rows("SELECT state, reason FROM control_replica ORDER BY id DESC LIMIT 1")
    return rows[0] if rows else ("", "")


def is_in(weir: Weir, state: str) -> None:
    until(lambda: replica(weir)[0] == state, f"a replica that is {state}: {replica(weir)}")


def is_read(weir: Weir) -> None:
    """Since now: what comes after is counted in full."""
    now = weir.rows("SELECT clock_timestamp()")[0][0]
    query = "SELECT count(*) FROM control_enginereading WHERE read_at > %s AND why_not = ''"
    until(lambda: weir.rows(query, now) == [(1,)], "counters that are read")


def hours(weir: Weir) -> list[dict]:
    """As far as its counters were read by now, after all that was asked of it."""
    books_balance(weir)
    is_read(weir)
    newest = "SELECT max(read_at) FROM control_enginecount"

    def judged() -> list[dict]:
        told = weir.weir("drift", "--now", "--json").stdout
        of_newest = f"SELECT count(*) FROM control_drift WHERE end_at = ({newest})"
        return weir.rows(of_newest) == [(1,)] and [json.loads(one) for one in told.splitlines()]

    return until(judged, "all that was read, judged")


def agree(weir: Weir) -> list[dict]:
    found = hours(weir)
    for hour in found:
        assert hour["unexplained"] == {"input": 0, "output": 0}, hour
    return found


def ask(weir: Weir, **members) -> httpx.Response:
    with weir.client() as client:
        return client.post("/v1/chat/completions", json=CHAT | members)


def events(weir: Weir) -> list[tuple]:
    query = "SELECT outcome, output_tokens, tokens_source FROM control_usageevent ORDER BY id"
    return weir.rows(query)


def test_until_somebody_starts_it_the_reason_is_told_and_then_two_probes_make_it_ready(
    weir, outside
):
    until(lambda: REFUSED in replica(weir)[1], "a probe that says why")
    assert replica(weir)[0] == "starting"
    outside.start()
    is_in(weir, "ready")
    weir.wait_until_ready()


def test_calls_go_to_it_with_its_key_and_are_metered_as_it_counted_them(weir, outside):
    is_read(weir)
    whole = ask(weir, max_tokens=5)
    assert whole.status_code == 200, whole.text
    assert (whole.json()["model"], whole.json()["usage"]["completion_tokens"]) == ("chat", 5)
    streamed = ask(weir, max_tokens=7, stream=True)
    assert streamed.text.rstrip().endswith("data: [DONE]")
    books_balance(weir, 2)
    assert events(weir) == [("complete", 5, "engine"), ("complete", 7, "engine")]


def test_its_counters_and_the_attempts_are_shown_hour_by_hour_and_agree(weir):
    with (
        weir.client() as client,
        client.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as left,
    ):
        next(left.iter_lines())
    assert sum(hour["engine"]["output"] for hour in agree(weir)) >= 5 + 7
    shown = weir.weir("drift", "--now")
    assert shown.returncode == 0, shown.stderr
    assert "outside#1" in shown.stdout
    assert "unexplained +0" in shown.stdout


def test_it_dies_and_comes_back_and_nothing_is_lost_or_made_up(weir, outside):
    outside.end()
    is_in(weir, "unhealthy")
    refused = ask(weir)
    assert refused.status_code == 503, refused.text
    outside.start()
    is_in(weir, "ready")
    is_read(weir)
    assert until(lambda: ask(weir, max_tokens=3).status_code == 200, "an answer")
    agree(weir)


def test_what_others_ask_it_past_the_gateway_is_an_incident_of_exactly_those_tokens(weir, outside):
    agree(weir)
    outside.answer_past_weir(tokens=1500)
    found = hours(weir)
    assert sum(hour["unexplained"]["output"] for hour in found) == 1500, found
    said = weir.weir("drift")
    assert said.returncode == 1
    assert "INCIDENT" in said.stdout


def test_frozen_it_is_out_of_the_routes_until_it_answers_again(weir, outside):
    kill(outside.process.pid, signal.SIGSTOP)
    try:
        is_in(weir, "unhealthy")
    finally:
        kill(outside.process.pid, signal.SIGCONT)
    is_in(weir, "ready")
    assert until(lambda: ask(weir, max_tokens=3).status_code == 200, "an answer")


def test_taken_away_nobody_is_sent_to_it_and_it_lives_on(weir, outside):
    weir.service.write_text(service(outside, ""))
    done = weir.weir("apply", "-f", str(weir.service), "--yes", "--prune")
    assert done.returncode == 0, done.stderr
    is_in(weir, "stopped")
    until(lambda: ask(weir).status_code == 404, "a route that is gone")
    assert httpx.get(f"{outside.url}/health", timeout=30).status_code == 200
    assert "outside#1" in weir.weir("drift").stdout
    books_balance(weir)
