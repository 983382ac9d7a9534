"""Builds the fake NVML library, writes its state, and reads through it in a process of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
SOURCE = Path(__file__).with_name("fake_nvml.c")
_READ_ON_EACH_LINE = """
import dataclasses, json, sys
from engines import gpu
reader = gpu.Reader(wait_seconds=float(sys.argv[1]))
for line in sys.stdin:
    print(json.dumps([dataclasses.asdict(one) for one in reader.read()]), flush=True)
"""


def build(folder: Path) -> Path:
    """The folder to put on LD_LIBRARY_PATH."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        raise RuntimeError("a C compiler builds the fake NVML: install gcc (apt-get install gcc)")
    library = folder / "libnvidia-ml.so.1"
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-Wl,-soname,{library.name}")
    subprocess.run([compiler, *flags, "-o", library, SOURCE], check=True)
    return folder


def card(index: int, **changes: Any) -> dict[str, Any]:
    """One card's lines; a member set to None is one it does not support."""
    members = {
        "uuid": f"GPU-{index}",
        "name": "NVIDIA H200",
        "memory_total": 150_000_000_000,
        "memory_used": 50_000_000_000,
        "utilisation": 37,
        "power": 312_500,
        "temperature": 54,
    } | changes
    return {f"gpu.{index}.{name}": value for name, value in members.items() if value is not None}


def slices(index: int, members: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Lines of a card in MIG mode: number of the slice → what differs from the usual."""
    lines: dict[str, Any] = {f"gpu.{index}.mig": 1}
    for number, changes in members.items():
        usual = {"uuid": f"MIG-{index}-{number}", "name": "MIG 1g.18gb", "memory_total": 19 << 30}
        its = {f"gpu.{index}.mig.{number}.{name}": it for name, it in (usual | changes).items()}
        lines |= its
    return lines


def write_state(path: Path, **lines: Any) -> None:
    """Replaced in one step: the library reads it at any moment."""
    fresh = path.with_suffix(".fresh")
    fresh.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    fresh.replace(path)


class Readings:
    """A process that reads the devices once for each call."""

    def __init__(self, library: Path | None, state: Path, wait_seconds: float = 30) -> None:
        env = os.environ | {"FAKE_NVML_STATE": str(state)}
        if library:
            # Looked at by the loader when a process starts, hence a process of its own.
            env["LD_LIBRARY_PATH"] = str(library)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _READ_ON_EACH_LINE, str(wait_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=env,
        )

    def read(self) -> list[dict[str, Any]]:
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
