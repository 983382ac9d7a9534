"""A gateway on real sockets for each test, and upstreams that answer what they are told."""

import shutil
from collections.abc import AsyncIterator, Iterator

import pytest
from django.conf import settings

from control.models import (
    CatalogModel,
    Deployment,
    Key,
    Project,
    Replica,
    Route,
    SnapshotPart,
    Target,
    Tenant,
    Version,
)
from control.models.sealing import digest_of, seal
from control.states import Part
from tests.gateway.place import KEY, Place, replica
from tests.gateway.running import build_all
from tests.gateway.serving import Serving
from tests.gateway.upstream import Script, Upstream, answered


@pytest.fixture
async def place(tmp_path) -> AsyncIterator[Place]:
    async with Place(tmp_path) as place:
        yield place


@pytest.fixture
async def engines(place):
    """`engines(script, …)` starts an upstream and makes it a ready replica of `place`."""
    started: list[Upstream] = []

    async def engine(*scripts: Script, **changes) -> Upstream:
        upstream = Upstream(*scripts)
        await upstream.start()
        started.append(upstream)
        upstream.info = replica(len(started), upstream.port, **changes)
        upstream.served = upstream.info.served_name
        place.know_replicas(*(one.info for one in started))
        return upstream

    yield engine
    for upstream in started:
        await upstream.stop()


@pytest.fixture
def engine() -> Iterator[Serving]:
    with Serving(answered("fine", 7, 3)) as serving:
        yield serving


@pytest.fixture
def key(transactional_db, engine) -> Key:
    """A tenant with a key, a route to one ready replica, and the snapshot of all that."""
    for left in ("snapshot", "spool"):  # of another test, whose tenants are gone
        shutil.rmtree(settings.WEIR_HOME / left, ignore_errors=True)
    tenant = Tenant.objects.create(name="acme")
    project = Project.objects.create(tenant=tenant, name="default")
    key = Key.objects.create(
        tenant=tenant, project=project, name="ci", shown="wei…kkkk", digest=digest_of(KEY)
    )
    model = CatalogModel.objects.create(name="m")
    version = Version.objects.create(model=model, name="v1", engine={"kind": "stub"})
    deployment = Deployment.objects.create(name="d", version=version)
    route = Route.objects.create(name="chat")
    Target.objects.create(route=route, deployment=deployment)
    Replica.objects.create(
        deployment=deployment,
        version=version,
        generation=1,
        state="ready",
        host="127.0.0.1",
        port=engine.port,
        slots=8,
        engine_key=seal("engine-secret"),
    )
    for part in Part:
        SnapshotPart.raise_version(part)
    build_all()
    return key
