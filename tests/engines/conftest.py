"""A fake driver library, for what reads devices through the real binding, and a stub engine."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engines.fake_nvml import Readings, build
from tests.engines.stub import KEY, StubEngine, running_stub


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def state(tmp_path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def readings(library, state) -> Iterator[Callable[..., Readings]]:
    started = []

    def start(**kwargs) -> Readings:
        started.append(Readings(kwargs.pop("library", library), state, **kwargs))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture(scope="module")
def _stub() -> Iterator[StubEngine]:
    with running_stub("--api-key", KEY, "--max-model-len", "64", "--max-num-seqs", "2") as started:
        yield started


@pytest.fixture
def engine(_stub) -> StubEngine:
    """One for a file of tests, with no orders but those of the test."""
    _stub.order(clear=True)
    return _stub
