"""Gateways that lease credit from real tables, and what is in those tables."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx
from django.db import connection, connections
from django.db.models import Sum

from control.gateway.admission.lender import Lender
from control.metering.ingest import ship
from control.models import (
    Account,
    Budget,
    CatalogModel,
    Deployment,
    Key,
    Posting,
    Price,
    Project,
    Route,
    Target,
    Tenant,
    UsageEvent,
    Version,
)
from control.models.sealing import digest_of
from control.routes.compiler import compile_part
from control.states import Part
from tests.gateway.place import KEY, Answer, Place, replica
from tests.servers import servers

UNIT = 10**12
PER_TOKEN = 10**11  # an answer of one token costs 0.10
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


async def in_thread(act: Callable, *args: object, **named: object) -> object:
    """Tables are read and written off the loop."""

    def acted() -> object:
        try:
            return act(*args, **named)
        finally:
            connection.close()

    return await asyncio.to_thread(acted)


def database_url() -> str:
    name = connections["default"].settings_dict["NAME"]
    return servers.postgres.url.rpartition("/")[0] + f"/{name}"


@dataclass
class Bank:
    """One tenant with a key, a priced model, and gateways in front of it."""

    client: httpx.AsyncClient
    key: Key
    version: Version
    places: list[Place]

    async def post(self, number: int, body: dict) -> Answer:
        """To one of the gateways."""
        url = f"{self.places[number].url}/v1/chat/completions"
        headers = {"authorization": f"Bearer {KEY}"}
        got = await self.client.post(url, json=body, headers=headers)
        return Answer(got.status_code, dict(got.headers), got.content)

    def know(self) -> None:
        """All gateways hear what the tables say."""
        identities, routes = compile_part(Part.IDENTITIES, 1), compile_part(Part.ROUTES, 1)
        for place in self.places:
            place.gateway.know(identities, routes)
            place.gateway.confirm(place.time.now())

    def serve_from(self, port: int) -> None:
        for place in self.places:
            place.know_replicas(
                replica(1, port, version_id=self.version.pk, model=self.version.model.name)
            )

    def budget(self, amount: str | None, **scope: object) -> Budget:
        scope = scope or {"key": self.key}
        changes = {"amount": amount, "currency": "USD"} if amount else {}
        return Budget.objects.create(**scope, **changes)

    def ship(self, *, alive: bool = True) -> None:
        for place in self.places:
            place.shared.outbox.flush()
            owner = place.spool.folder.name
            ship(place.spool.folder.parent, {owner} if alive else set(), datetime.now(UTC))

    def account(self, budget: Budget) -> Account:
        return Account.objects.get(budget=budget)

    def ledger(self) -> int:
        total = Posting.objects.filter(account="receivable").aggregate(Sum("amount_pico"))
        return int(total["amount_pico__sum"] or 0)

    def events(self) -> int:
        return UsageEvent.objects.count()


def a_tenant(output_pico: int = PER_TOKEN, input_pico: int = 0) -> tuple[Key, Version]:
    tenant = Tenant.objects.create(name="acme")
    project = Project.objects.create(tenant=tenant, name="default")
    key = Key.objects.create(
        tenant=tenant, project=project, name="ci", shown="wei…kkkk", digest=digest_of(KEY)
    )
    model = CatalogModel.objects.create(name="m")
    version = Version.objects.create(model=model, name="v1", engine={"kind": "stub"})
    deployment = Deployment.objects.create(name="d", version=version)
    Target.objects.create(route=Route.objects.create(name="chat"), deployment=deployment)
    Price.objects.create(
        model=model,
        currency="USD",
        input_pico=input_pico,
        cached_input_pico=input_pico,
        output_pico=output_pico,
        valid_from=LONG_AGO,
    )
    return key, version


def a_lender(owner: str) -> Lender:
    return Lender(url=database_url(), owner=owner)
