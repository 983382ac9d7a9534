"""A world whose node has cards: the real binding on the fake driver, stub engines that tell it."""

import ctypes

import pynvml
import pytest

from control.fleet import launch
from engines import gpu
from tests.engines.fake_nvml import build, card, write_state
from tests.fleet.rows import a_deployment, a_version
from tests.fleet.world import World

GIB = 1 << 30
HELD, LEFT = 2 * GIB, GIB // 4  # of a card, by an engine that is awake, and that sleeps
TOTAL = 24 * GIB


class Cards(World):
    def __init__(self, state):
        self.state = state
        super().__init__()

    def wants(self, name="d", *, wanted=1, sleep=1, replicas_max=1, engine="stub", **arguments):
        asked = {"device_bytes": HELD, "asleep_bytes": LEFT} | arguments
        asked = {name: value for name, value in asked.items() if value is not None}
        version = a_version(f"m-{name}", engine={"kind": engine}, arguments=asked)
        return a_deployment(
            name,
            version=version,
            wanted=wanted,
            replicas_min=0,
            replicas_max=replicas_max,
            scaling={"sleep": sleep} if sleep else {},
        )

    def used(self):
        """Bytes of each card, as the driver tells them."""
        lines = dict(line.split("=", 1) for line in self.state.read_text().splitlines())
        return [int(lines[f"gpu.{n}.memory_used"]) for n in range(int(lines["count"]))]

    def folder(self, replica):
        return launch.folder_of(replica)

    def forget_process(self, replica):
        """A driver shows a process no more once it has ended."""
        lines = self.state.read_text().splitlines()
        left = [line for line in lines if f"={replica.pid}:" not in line]
        self.state.write_text("".join(f"{line}\n" for line in left))

    def take(self, index, count):
        """A process of somebody else."""
        lines = dict(line.split("=", 1) for line in self.state.read_text().splitlines())
        lines[f"gpu.{index}.memory_used"] = int(lines[f"gpu.{index}.memory_used"]) + count
        write_state(self.state, **lines)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("nvml")) / "libnvidia-ml.so.1"


@pytest.fixture
def cards(library, tmp_path, monkeypatch):
    """One; a test that wants more writes them."""
    state = tmp_path / "nvml"
    write_state(state, **card(0, memory_total=TOTAL, memory_used=0), count=1)
    monkeypatch.setenv("FAKE_NVML_STATE", str(state))
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(gpu, "_reader", gpu.Reader())
    return state


@pytest.fixture
def world(db, cards, settings, tmp_path):
    settings.WEIR_HOME = tmp_path / "home"
    settings.WEIR_HOME.mkdir()
    more = {"WEIR_HOME": str(settings.WEIR_HOME), "FAKE_NVML_STATE": str(cards)}
    settings.WEIR_NODE_ENVIRONMENT = {**settings.WEIR_NODE_ENVIRONMENT, **more}
    made = Cards(cards)
    yield made
    made.end()
