"""Other gateways, each in an environment of its own; what cannot be had says why."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from control.management.local.ports import free_port
from tests.bench.report import ROOT, say
from tests.bench.targets import Server, start

VLLM, SGLANG, LITELLM = "vllm-router", "sglang-router", "LiteLLM"
INSTALLING_SECONDS_MAX = 900
STARTING_SECONDS_MAX = 120
_PLACE = ROOT / ".weir-bench"
_LITELLM = """
model_list:
  - model_name: bench
    litellm_params: {{model: openai/bench, api_base: "http://127.0.0.1:{port}/v1", api_key: none}}
litellm_settings: {{num_retries: 0, telemetry: false}}
"""


@dataclass
class Peers:
    servers: list[Server]
    missing: dict[str, str]  # by name, why


def start_all(folder: Path, engine_port: int) -> Peers:
    peers = Peers([], {})
    url = f"http://127.0.0.1:{engine_port}"
    config = folder / "litellm.yaml"
    config.write_text(_LITELLM.format(port=engine_port))
    router = ["--worker-urls", url, "--policy", "round_robin", "--host", "127.0.0.1"]
    for name, package, module, words in (
        (VLLM, "vllm-router==0.1.17", "vllm-router", [*router, *_metrics()]),
        (SGLANG, "sglang-router==0.3.2", "smg", ["launch", *router, *_metrics()]),
        (LITELLM, "litellm[proxy]==1.80.7", "litellm", ["--config", str(config)]),
    ):
        try:
            program = _installed(name, package) / module
            peers.servers.append(_started(name, folder, [str(program), *words]))
        except (OSError, subprocess.SubprocessError, SystemExit) as error:
            peers.missing[name] = str(error)[-200:]
            say(f"{name} is not compared with: {peers.missing[name]}")
    return peers


def _metrics() -> list[str]:
    """Both would take the same port."""
    return ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())]


def _installed(name: str, package: str) -> Path:
    """Its programs. Installed once, and kept for the next benchmark."""
    home = _PLACE / name.lower()
    stamp = home / package
    if not stamp.exists():
        say(f"installing {package} in {home}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        pip = [str(home / "bin/python"), "-m", "pip", "--disable-pip-version-check", "-q"]
        subprocess.run([*pip, "install", package], check=True, timeout=INSTALLING_SECONDS_MAX)
        stamp.touch()
    return home / "bin"


def _started(name: str, folder: Path, argv: list[str]) -> Server:
    port, log = free_port(), (folder / f"{name}.log").open("wb")
    words = [*argv, "--port", str(port)]
    how = {"stderr": log, "cwd": folder, "seconds_max": STARTING_SECONDS_MAX}
    return start(name, words, port, **how)
