"""A bucket, and the environment that leads to it."""

import pytest

from engines.stores.access import from_environment
from tests.metering.exports.bucket import running


@pytest.fixture
def bucket(monkeypatch):
    with running() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        server.access = from_environment()
        yield server
