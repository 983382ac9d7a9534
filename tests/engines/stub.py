"""A stub engine of the test's own, in a process of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from control.management.local.ports import free_port
from tests.threads import HANG_SECONDS

ROOT = Path(__file__).parent.parent.parent
KEY = "stub-key"
AUTHORISED = {"authorization": f"Bearer {KEY}"}
HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello there"}]}


@dataclass(frozen=True)
class StubEngine:
    url: str
    port: int
    pid: int

    def script(self, times: int = 1, **script: Any) -> None:
        order = {"script": script, "times": times}
        httpx.post(f"{self.url}/stub/script", json=order, timeout=30).raise_for_status()

    def order(self, **order: Any) -> None:
        httpx.post(f"{self.url}/stub/script", json=order, timeout=30).raise_for_status()

    def post(self, body: dict, path: str = "/v1/chat/completions") -> httpx.Response:
        return httpx.post(self.url + path, json=body, headers=AUTHORISED, timeout=30)

    def seen(self) -> dict[str, Any]:
        return httpx.get(f"{self.url}/stub/seen", timeout=30).json()


@contextmanager
def running_stub(*arguments: str, name: str = "m") -> Iterator[StubEngine]:
    """Started on a free port and ready; ended with the block."""
    port = free_port()
    argv = [sys.executable, "-m", "engines.stub", "--port", str(port), "--served-name", name]
    env = os.environ | {"WEIR_ALLOW_STUB": "1"}
    process = subprocess.Popen([*argv, *arguments], cwd=ROOT, env=env)
    try:
        url = f"http://127.0.0.1:{port}"
        _await_health(url, process)
        yield StubEngine(url, port, process.pid)
    finally:
        process.kill()
        process.wait()


def _await_health(url: str, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "the stub ended at once"
        try:
            httpx.get(f"{url}/health", timeout=10)
        except httpx.TransportError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("the stub did not start")


def events(text: str) -> list[dict]:
    """The chunks of a stream that ended with [DONE]."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
