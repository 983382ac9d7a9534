"""A fake driver library for tests that read devices through the real binding."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engines.fake_nvml import Readings, build


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
