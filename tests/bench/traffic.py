"""Calls of a month for the money benchmark: who makes them, and their spools."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from control.gateway.ids import call_id
from control.metering.records import Close, Open, Progress, line_of
from control.models import CatalogModel, Key, Price, Project, Route, Tenant, Version

TENANTS, MODELS = 40, 4
BEGAN = datetime(2026, 10, 1, tzinfo=UTC)
SEED = 7
LOST_PERCENT = 2
SEGMENT_CALLS = 20_000


class Who(NamedTuple):
    """Ids that a call names, and its route."""

    tenant_id: int
    project_id: int
    key_id: int
    version_id: int
    route: str
    price_id: int


NAMED = ("tenant", "project", "key", "version", "price")
TOLD = ("tenant_id", "project_id", "key_id", "version_id", "route")


def people() -> list[Who]:
    """Tenants with a key each, models with a price each; everyone uses every model."""
    if Tenant.objects.exists():
        return _known()
    prices = [_priced(number) for number in range(MODELS)]
    found = []
    for number in range(TENANTS):
        tenant = Tenant.objects.create(name=f"tenant-{number:02d}")
        project = Project.objects.create(tenant=tenant, name="default")
        key = Key.objects.create(
            tenant=tenant, project=project, name="first", shown="wei…", digest=f"{number:064d}"
        )
        found += [
            Who(tenant.pk, project.pk, key.pk, version.pk, version.model.name, price.pk)
            for version, price in prices
        ]
    return found


def _known() -> list[Who]:
    prices = Price.objects.select_related("model").order_by("pk")
    versions = [(Version.objects.get(model=price.model), price) for price in prices]
    return [
        Who(key.tenant_id, key.project_id, key.pk, version.pk, price.model.name, price.pk)
        for key in Key.objects.order_by("pk")
        for version, price in versions
    ]


def _priced(number: int) -> tuple[Version, Price]:
    model = CatalogModel.objects.create(name=f"model-{number}")
    Route.objects.create(name=model.name)
    price = Price.objects.create(
        model=model,
        currency="USD",
        input_pico=400_000 + number,
        cached_input_pico=100_000,
        output_pico=1_600_000,
        valid_from=BEGAN,
    )
    version = Version.objects.create(model=model, name="v1", engine={"kind": "stub"})
    return version, price


def calls(who: list[Who], count: int, began: float, seconds: float) -> Iterator[tuple[Open, Close]]:
    """In the order of their starts, as a gateway writes them."""
    chance = random.Random(SEED)
    for number in range(count):
        at = began + seconds * number / count
        named = chance.choice(who)
        output = chance.randrange(1, 800)
        told = {
            "call_id": call_id(at),
            **{name: getattr(named, name) for name in TOLD},
            "replica_id": named.version_id,
            "endpoint": "chat",
            "stream": True,
            "priority": "standard",
            "started_at": at,
        }
        closed = chance.random() * 100 < LOST_PERCENT
        yield (
            Open(**told, input_estimate=900),
            Close(
                **told,
                attempts=1,
                outcome="client_closed" if closed else "complete",
                status=200,
                finish_reason="" if closed else "stop",
                input_tokens=chance.randrange(50, 4000),
                cached_input_tokens=chance.randrange(0, 50),
                output_tokens=output,
                reasoning_tokens=0,
                delivered_tokens=output,
                tokens_source="engine",
                first_token_at=at + 0.1 + chance.random() / 10,
                ended_at=at + 0.2 + output * 0.01,
            ),
        )


def write_spool(directory: Path, owner: str, made: Iterator[tuple[Open, Close]]) -> None:
    """A spool that nobody writes any more."""
    folder = directory / owner
    folder.mkdir(parents=True)
    segment = 1
    while lines := lines_of(made, SEGMENT_CALLS):
        (folder / f"{segment:08d}.jsonl").write_bytes(lines)
        segment += 1


def lines_of(made: Iterator[tuple[Open, Close]], count: int) -> bytes:
    """Of the next calls: an open, what was heard after a second, and the end of each."""
    lines: list[bytes] = []
    for opened, close in islice(made, count):
        lines.append(line_of(opened))
        if close.ended_at - close.started_at > 1:
            heard = close.input_tokens, close.cached_input_tokens, 90
            lines.append(line_of(Progress(opened.call_id, *heard)))
        lines.append(line_of(close))
    return b"".join(lines)
