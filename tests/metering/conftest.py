"""A tenant with a key, a priced version, and calls of theirs."""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

import msgspec
import pytest

from control.metering.records import Close, Open, Progress
from control.metering.spool import SpoolWriter
from control.models import CatalogModel, Key, Price, Project, Tenant, Version

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
_numbers = count(1)


@dataclass
class House:
    """What usage refers to."""

    tenant: Tenant
    project: Project
    key: Key
    version: Version
    price: Price | None = None

    def close(self, call_id: str, **changes) -> Close:
        values = {
            **msgspec.structs.asdict(self.open(call_id)),
            "attempts": 1,
            "outcome": "complete",
            "status": 200,
            "finish_reason": "stop",
            "input_tokens": 100,
            "cached_input_tokens": 20,
            "output_tokens": 50,
            "reasoning_tokens": 0,
            "delivered_tokens": 50,
            "tokens_source": "engine",
            "first_token_at": AT.timestamp() + 0.2,
            "ended_at": AT.timestamp() + 1,
        }
        del values["input_estimate"]
        return Close(**values | changes)

    def open(self, call_id: str, **changes) -> Open:
        values = {
            "call_id": call_id,
            "tenant_id": self.tenant.pk,
            "project_id": self.project.pk,
            "key_id": self.key.pk,
            "route": "chat-small",
            "version_id": self.version.pk,
            "replica_id": 7,
            "endpoint": "chat",
            "stream": True,
            "priority": "standard",
            "started_at": AT.timestamp(),
            "input_estimate": 130,
        }
        return Open(**values | changes)

    def progress(self, call_id: str, output_tokens: int) -> Progress:
        return Progress(call_id, 100, 20, output_tokens)


def a_house(name: str = "acme", model: str = "gemma") -> House:
    tenant = Tenant.objects.create(name=name)
    project = Project.objects.create(tenant=tenant, name="default")
    key = Key.objects.create(
        tenant=tenant, project=project, name="ci", shown="wei…abcd", digest=f"{next(_numbers):064d}"
    )
    catalogued, _ = CatalogModel.objects.get_or_create(name=model)
    version, _ = Version.objects.get_or_create(
        model=catalogued, name="v1", defaults={"engine": {"kind": "stub"}, "digest": "d"}
    )
    return House(tenant, project, key, version)


@pytest.fixture
def house(db) -> House:
    """Prices: 1 in, 0.25 cached, 4 out per million."""
    made = a_house()
    made.price = Price.objects.create(
        model=made.version.model,
        currency="USD",
        input_pico=1_000_000,
        cached_input_pico=250_000,
        output_pico=4_000_000,
        valid_from=datetime(2026, 11, 1, tzinfo=UTC),
    )
    return made


def spool(directory, *records, owner="gw-1", close=True) -> SpoolWriter:
    writer = SpoolWriter(directory, owner)
    for record in records:
        writer.append(record)
    if close:
        writer.close()
    return writer
