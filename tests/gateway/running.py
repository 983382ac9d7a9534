"""The real processes of a gateway, and waiting for what they do."""

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import psutil
from django.conf import settings

from control.management.local.ports import free_port
from control.routes import compiler
from control.states import Part
from tests.gateway.place import KEY
from tests.threads import HANG_SECONDS


def until(holds: Callable[[], object], what: str) -> object:
    deadline = time.monotonic() + HANG_SECONDS
    while not (found := holds()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)
    return found


def build_all() -> None:
    for part in Part:
        compiler.build(part, at=datetime.now(UTC))


class Running:
    def __init__(self, environment: dict[str, str], processes: int = 1, port: int = 0) -> None:
        self.port, self.metrics_port = port or free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [sys.executable, str(settings.BASE_DIR / "manage.py"), "gateway"],
            env={
                "WEIR_GATEWAY_LIMITS": '{"cold_start_seconds": 1}',
                **environment,
                "WEIR_GATEWAY_PORT": str(self.port),
                "WEIR_METRICS_PORT": str(self.metrics_port),
                "WEIR_GATEWAY_PROCESSES": str(processes),
            },
        )

    @property
    def client(self) -> httpx.Client:
        """One for each request, on a connection of its own, so that all workers are met. Of threads
        that share a client which keeps none, one closes what another was just given."""
        alone = {"headers": {"connection": "close"}, "verify": False}
        return httpx.Client(base_url=self.url, timeout=HANG_SECONDS, **alone)

    def workers(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def status(self, path: str = "/ready") -> int | None:
        try:
            return self.client.get(path).status_code
        except httpx.HTTPError:
            return None

    def post(self, body: dict, key: str = KEY) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}"}
        return self.client.post("/v1/chat/completions", json=body, headers=headers)

    def metrics(self) -> str:
        return self.client.get(f"http://127.0.0.1:{self.metrics_port}/metrics").text

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(HANG_SECONDS)
