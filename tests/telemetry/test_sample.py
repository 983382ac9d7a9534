"""Engines are read over HTTP; one that does not answer says why."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from control.telemetry import sample as sample_module
from control.telemetry.messages import ReplicaSample
from control.telemetry.sample import EngineAddress, EngineReader, Unread
from engines.kinds import KINDS
from engines.vllm.metrics import parse_metrics
from tests.engines.stub import running_stub

PAGE = 'vllm:num_requests_running{{engine="0"}} 2.0\nvllm:generation_tokens_total{{e="0"}} {0}.0\n'


class Engine(BaseHTTPRequestHandler):
    """Answers /metrics with what the test put there."""

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        status, body = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture
def engine():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    server.answers, server.seen = [], []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join(30)
    server.server_close()


def address(port: int) -> EngineAddress:
    return EngineAddress(7, "gemma#1", f"http://127.0.0.1:{port}", "secret", parse_metrics)


def test_two_readings_give_a_rate(engine):
    engine.answers = [(200, PAGE.format(100).encode()), (200, PAGE.format(150).encode())]
    with EngineReader() as reader:
        reader.read(address(engine.server_port), 10.0)
        sample = reader.read(address(engine.server_port), 12.0)
        assert isinstance(sample, ReplicaSample)
        assert (sample.running, sample.generation_tokens_per_second) == (2, 25)
        assert reader.load(7).generation_tokens == 150
        assert reader.busy_ratio(7) == 1.0
        assert reader.busy_ratio(8) == 0.0
        reader.keep_only(set())
        assert reader.load(7) is None
    assert engine.seen == [("/metrics", "Bearer secret")] * 2


def test_an_engine_that_refuses_or_is_away_or_never_ends_is_unread(engine, monkeypatch):
    monkeypatch.setattr(sample_module, "PAGE_BYTES_MAX", 10)
    engine.answers = [(401, b""), (200, b"x" * 11)]
    with EngineReader() as reader:
        assert reader.read(address(engine.server_port), 1.0) == Unread("/metrics answered 401")
        assert reader.read(address(engine.server_port), 1.0) == Unread(
            "/metrics is larger than 10 bytes"
        )
        assert reader.read(address(1), 1.0) == Unread("ConnectionRefusedError at /metrics")


def test_what_an_engine_did_between_two_readings_is_seen():
    """The stub counts as vLLM does: two calls of eight tokens."""
    kind = KINDS["stub"]
    with (
        running_stub("--api-key", "k", "--token-seconds", "0.01") as stub,
        EngineReader() as reader,
    ):
        here = EngineAddress(7, "m#1", stub.url, "k", kind.parse_metrics)
        reader.read(here, 10.0)
        for _ in range(2):
            httpx.post(
                f"{stub.url}/v1/completions",
                json={"model": "m", "prompt": "hello", "max_tokens": 8},
                headers={"Authorization": "Bearer k"},
                timeout=30,
            ).raise_for_status()
        sample = reader.read(here, 20.0)
    assert sample.generation_tokens_per_second == 1.6
    assert sample.ttft_seconds > 0
    assert 0 < sample.busy_ratio < 1
