"""Counters of engines that Weir did not launch are read over real HTTP, or it is said why not."""

from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from control.fleet import engine_http
from control.metering.drift.external.rules import NO_COUNTERS
from control.models import EngineCount, EngineReading, Replica
from control.models.sealing import seal
from control.reconcile import counters
from tests.fleet.rows import a_deployment, a_replica, a_version

AT = datetime(2026, 11, 1, 12, 30, tzinfo=UTC)
PAGE = """# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
vllm:prompt_tokens_total{engine="0",model_name="m"} 120.0
vllm:prompt_tokens_total{engine="1",model_name="m"} 3.0
vllm:generation_tokens_total{engine="0",model_name="m"} 45.0
vllm:generation_tokens_created{engine="0",model_name="m"} 1793500000.0
"""


class Outside(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        status, text = self.server.answers.get(self.path, (404, "not found"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def outside():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Outside)
    server.answers, server.asked = {"/metrics": (200, PAGE)}, []
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def an_outside(name: str, url: str, **engine) -> Replica:
    kind = {"kind": "external", "url": url, "served_name": "m"} | engine
    version = a_version(f"model-of-{name}", engine=kind)
    return a_replica(a_deployment(name, version=version), at=AT)


@pytest.fixture
def url(outside) -> str:
    return f"http://127.0.0.1:{outside.server_port}/v1"


def why(replica: Replica) -> str:
    counters.read(AT)
    return EngineReading.objects.get(replica=replica).why_not


def test_its_counters_are_read_and_written_down(db, outside, url):
    replica = an_outside("out", url)
    assert why(replica) == ""
    row = EngineCount.objects.get()
    assert (row.prompt_tokens, row.generation_tokens, row.read_at) == (123, 45, AT)
    outside.answers["/metrics"] = (200, PAGE.replace("120.0", "220.0"))
    counters.read(AT.replace(minute=59))
    assert set(EngineCount.objects.values_list("prompt_tokens", flat=True)) == {123, 223}


def test_its_key_goes_along_and_what_stands_before_v1(db, outside, url):
    outside.answers = {"/engine/metrics": (200, PAGE)}
    replica = an_outside("out", url.replace("/v1", "/engine/v1"))
    version = replica.deployment.version
    version.upstream_key = seal("a-key-of-theirs")
    version.save(update_fields=["upstream_key"])
    assert why(replica) == ""
    assert outside.asked == [("/engine/metrics", "Bearer a-key-of-theirs")]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((404, "not found"), "/metrics answers 404"),
        ((401, "who are you"), "/metrics answers 401"),
        ((200, "tgi_request_count 4\n"), NO_COUNTERS),
        ((200, PAGE + "#" * 500), "/metrics is larger than 800 bytes"),
    ],
)
def test_a_page_that_says_nothing_is_said(db, outside, url, answer, reason, monkeypatch):
    monkeypatch.setattr(engine_http, "PAGE_BYTES_MAX", 800)
    outside.answers["/metrics"] = answer
    assert why(an_outside("out", url)) == reason
    assert not EngineCount.objects.exists()


def test_a_page_that_comes_too_slowly_is_left(db, url, monkeypatch):
    monkeypatch.setattr(engine_http, "PAGE_SECONDS", -1.0)
    assert why(an_outside("out", url)) == "/metrics takes longer than -1 s"


def test_one_that_is_not_there_is_said_and_does_not_hold_up_others(db, url):
    gone = an_outside("gone", "http://127.0.0.1:9")
    there = an_outside("there", url)
    assert why(gone).startswith("/metrics: ConnectError")
    assert EngineCount.objects.get().replica == there


def test_one_that_others_ask_too_is_not_asked(db, outside, url):
    assert why(an_outside("out", url, shared=True)) == counters.SHARED
    assert outside.asked == []


def test_an_engine_of_two_replicas_is_held_against_neither(db, outside, url):
    one, other = an_outside("one", url), an_outside("other", url.removesuffix("/v1"))
    assert why(one) == "2 replicas use the engine at its address"
    assert why(other) == why(one)
    Replica.objects.filter(pk=other.pk).update(state="stopped")
    assert why(one) == ""


def test_engines_that_weir_launched_are_their_nodes_to_read(db):
    a_replica(a_deployment("own"), at=AT)
    counters.read(AT)
    assert not EngineReading.objects.exists()
