"""Price books as gateways get them: everyone's by model, tenants' own beside them."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from control.metering.prices.actions import save_price, withdraw_price
from control.metering.prices.rules import Prices
from control.metering.prices.wanted import price_wanted
from control.models import CatalogModel, Tenant
from control.routes.compiler import compile_part
from control.routes.snapshot import decode
from control.states import Part

pytestmark = pytest.mark.django_db
AT = datetime(2026, 11, 1, tzinfo=UTC)
WHO = {"by": "anna", "reason": "a test", "at": AT}


def a_book(output: str, *further: dict, **terms) -> None:
    named = {"input": "0.1", "output": output}
    save_price(price_wanted("m", "USD", named, further=further, terms=terms), **WHO)


def test_books_reach_gateways_whole():
    CatalogModel.objects.create(name="m")
    tenant = Tenant.objects.create(name="acme")
    batch = {"priority": "batch", "per_million": {"input": "0.1", "output": "0.2"}}
    tier = {"from_tokens": 10, "per_million": {"input": "0.1", "output": "0.3"}}
    a_book("0.4", batch, tier, interrupted="delivered")
    a_book("0.6", tenant="acme", valid_until=AT + timedelta(days=9))
    withdraw_price("m", "acme", **WHO | {"at": AT + timedelta(days=5)})
    routes = decode(Part.ROUTES, msgspec.json.encode(compile_part(Part.ROUTES, 1)))
    assert routes == compile_part(Part.ROUTES, 1)
    prices = Prices(routes.prices, routes.own_prices)

    def outputs(tenant_id: int, priority: str, day: int) -> list[int]:
        rows = prices.tiers(tenant_id, "m", priority, AT + timedelta(days=day))
        return [row.output_pico // 100_000 for row in rows]

    assert outputs(0, "standard", 0) == [4, 3]
    assert outputs(0, "batch", 0) == [2]
    assert (outputs(tenant.pk, "batch", 0), outputs(tenant.pk, "batch", 5)) == ([6], [2])
    assert {row.interrupted for row in routes.prices["m"]} == {"delivered"}
