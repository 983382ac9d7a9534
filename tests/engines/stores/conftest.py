"""A store to fetch from, and a client that asks nobody else."""

from collections.abc import Iterator

import httpx
import pytest

from tests.engines.stores.server import Store, serving


@pytest.fixture
def store() -> Iterator[Store]:
    with serving() as found:
        yield found


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=30, follow_redirects=True) as found:
        yield found
