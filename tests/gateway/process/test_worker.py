"""A worker listens when it can answer: with a snapshot that is known to be current."""

import socket

import pytest

from control.gateway.known.snapshot import Known
from control.gateway.limits import Limits
from control.gateway.process.worker import Place, Worker
from control.routes.snapshot import FORMAT, Identities, Replicas, Routes
from tests.gateway.place import NOWHERE

KNOWN = Known(Identities(FORMAT, 1, {}, {}), Routes(FORMAT, 1, {}), Replicas(FORMAT, 1, []), {})


@pytest.fixture
async def worker(tmp_path):
    with socket.socket() as listener:
        place = Place("tested-1-0-0", listener.fileno(), 1, "postgresql://", NOWHERE, tmp_path)
        made = Worker(place, Limits())
        made.build()
        yield made


async def test_a_snapshot_that_is_not_confirmed_yet_is_not_listened_with(worker):
    worker.know(KNOWN)
    assert not worker.may_listen.is_set()
    worker.confirm(0.0)
    assert worker.may_listen.is_set()


async def test_nor_is_a_confirmation_without_a_snapshot(worker):
    worker.confirm(0.0)
    assert not worker.may_listen.is_set()
    worker.know(KNOWN)
    assert worker.may_listen.is_set()
