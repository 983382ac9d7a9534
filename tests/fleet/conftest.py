"""A platform in one process, whose node keeps its files in the test's own folder."""

from collections.abc import Iterator

import pytest

from tests.fleet.world import World


@pytest.fixture
def world(db, settings, tmp_path) -> Iterator[World]:
    settings.WEIR_HOME = tmp_path
    settings.WEIR_NODE_ENVIRONMENT = {**settings.WEIR_NODE_ENVIRONMENT, "WEIR_HOME": str(tmp_path)}
    made = World()
    yield made
    made.end()
