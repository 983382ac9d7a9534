"""What the gateway benchmark serves: a tenant with every limit, two routes, a replica of each."""

import time
from datetime import UTC, datetime

from django.db import transaction
from django.utils import timezone

from control.models import (
    CatalogModel,
    Deployment,
    Key,
    Project,
    Quota,
    Replica,
    Route,
    SnapshotPart,
    Target,
    Tenant,
    Version,
)
from control.models.sealing import digest_of
from control.routes import compiler
from control.states import Part
from control.tenancy.actions import revoke_key
from tests.bench.targets import KEY, SECOND

# Never reached, and counted with each call all the same.
LIMITS = {
    "requests_per_second": 1_000_000,
    "requests_per_minute": 60_000_000,
    "input_tokens_per_minute": 1_000_000_000,
    "output_tokens_per_minute": 1_000_000_000,
    "concurrent_calls": 1_000_000,
    "context_tokens": 32_768,
    "output_tokens": 8192,
}


def seed(engine_port: int, bare_port: int) -> None:
    with transaction.atomic():
        tenant = Tenant.objects.create(name="acme")
        project = Project.objects.create(tenant=tenant, name="default")
        rows = [
            Key.objects.create(
                tenant=tenant, project=project, name=name, shown="weir-…", digest=digest_of(text)
            )
            for name, text in (("first", KEY), ("second", SECOND))
        ]
        for scope in ({"tenant": tenant}, {"project": project}, {"key": rows[0]}):
            Quota.objects.create(**scope, **LIMITS)
        _serve("bench", "vllm", engine_port)
        _serve("bare", "external", bare_port)
        for part in Part:
            SnapshotPart.raise_version(part)
    for part in Part:
        compiler.build(part, at=datetime.now(UTC))


def revoke() -> float:
    """The second key; the time by which it was done, in epoch seconds."""
    key = Key.objects.get(name="second")
    revoke_key(key.pk, by="bench", reason="a benchmark", at=timezone.now())
    return time.time()


def _serve(name: str, kind: str, port: int) -> None:
    """Both engines call their model `bench`; only vLLM's kind is asked for token ids."""
    model = CatalogModel.objects.create(name=name)
    engine = {"kind": kind, "version": "0.32.0", "served_name": "bench"}
    if kind == "external":
        engine["url"] = f"http://127.0.0.1:{port}"
    version = Version.objects.create(model=model, name="v1", engine=engine)
    deployment = Deployment.objects.create(name=name, version=version)
    Target.objects.create(route=Route.objects.create(name=name), deployment=deployment)
    Replica.objects.create(
        deployment=deployment,
        version=version,
        generation=1,
        state="ready",
        host="127.0.0.1",
        port=port,
        slots=10_000,
    )
