"""Gateways that count together in a real Valkey, and one engine behind them."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import redis
from django.conf import settings

from control.management.local.account import server_account
from control.management.local.death import dies_with_us
from control.management.local.ports import free_port
from control.management.local.valkey import Valkey
from tests.gateway.admission.budgets import Bank, a_lender, a_tenant, in_thread
from tests.gateway.place import Place, replica
from tests.gateway.upstream import Upstream, answered


@pytest.fixture
async def gateways(tmp_path) -> AsyncIterator[list[Place]]:
    # A clock that a test pushes must not make Valkey look slow.
    given = {"redis_url": settings.REDIS_LIVE_URL, "limits": {"counters_seconds": 10_000}}
    async with (
        Place(tmp_path / "1", processes=2, **given) as first,
        Place(tmp_path / "2", processes=2, **given) as second,
    ):
        for place in (first, second):
            await place.until(lambda place=place: place.shared.counters.shared)
        yield [first, second]


@pytest.fixture
async def engine(gateways) -> AsyncIterator[Upstream]:
    engine = Upstream(answered("fine", 90, 10))
    port = await engine.start()
    for place in gateways:
        place.know_replicas(replica(1, port))
    yield engine
    await engine.stop()


class OwnValkey:
    """One that a test may stop, freeze or make read-only: nobody else counts in it."""

    def __init__(self, place: Path) -> None:
        place.chmod(0o711)  # the server's account passes through
        self._server = Valkey(place, free_port(), server_account(), throwaway=True)
        self._server.prepare()
        self.url = self._server.url + "/3"
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._server.argv(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=dies_with_us(signal.SIGTERM),
            **self._server.popen,
        )
        until = time.monotonic() + 30  # a hang guard
        while not self._server.ready():
            assert time.monotonic() < until
            time.sleep(0.02)

    def stop(self) -> None:
        """All that it held is lost."""
        self._process.kill()
        self._process.wait()

    @property
    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, decode_responses=True)


@pytest.fixture
def own_valkey() -> Iterator[OwnValkey]:
    place = Path(tempfile.mkdtemp(prefix="weir-test-"))
    own = OwnValkey(place)
    own.start()
    yield own
    own.stop()
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
async def bank(tmp_path, transactional_db, engine) -> AsyncIterator[Bank]:
    # Two gateways, their tenants and the engine share the test's loop: none is as fast as alone.
    limits = {"money_seconds": 2}
    both = {"redis_url": settings.REDIS_LIVE_URL, "processes": 2, "limits": limits}
    async with (
        httpx.AsyncClient(timeout=30) as client,
        Place(tmp_path / "1", **both, owner="gw-1", lender=a_lender("gw-1")) as first,
        Place(tmp_path / "2", **both, owner="gw-2", lender=a_lender("gw-2")) as second,
    ):
        key, version = await in_thread(a_tenant)
        bank = Bank(client, key, version, [first, second])
        bank.serve_from(engine.port)
        yield bank
