"""What a service.yaml says of cost: read, refused, stored, read back."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from control.apply.actions import apply
from control.apply.wanted import BadFile
from control.metering.cost.actions import save_token_weights
from control.metering.cost.wanted import token_weights_wanted
from control.models import CostPool, CostRate, TokenWeights, Variant
from tests.apply.documents import parse

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
BASE = """apiVersion: weir/v1
models:
  - name: m
    versions:
      - {name: bf16, engine: {kind: external, url: "http://127.0.0.1:9000", served_name: m}}
      - {name: fp8, engine: {kind: external, url: "http://127.0.0.1:9001", served_name: m}}
"""
COSTS = """
cost_rates:
  - device: "NVIDIA A100*"
    pool: lab
    currency: CNY
    owned: {price: "150000", residual: "22500", months: 36, finance_per_month: "80"}
    load_factor: 0.7
    host_watts: 250
    power_per_kwh: "0.75"
    pue: 1.35
    engineering_per_month: "2376.625"
  - {device: "*", currency: CNY, hardware_per_hour: "20"}
cost_pools: [{pool: lab, idle: unallocated, practical_use: 0.8}]
token_weights:
  - {model: m, output: "5"}
  - {model: m, version: fp8, cached_input: "0.2", output: "3.5"}
variants: [{of: "m:bf16", version: "m:fp8", kind: quantised}]
"""


def do(text: str, *, at=AT, carry_out=True):
    options = {"prune": False, "carry_out": carry_out, "environment": {}}
    return apply(text, by="anna", reason="a test", at=at, **options)


def steps(text: str, **options) -> list[str]:
    return [f"{one.verb} {one.subject}" for one in do(text, **options).plan.changes]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("cost_rates: [{device: '*', currency: CNY, OWNED}]", "owned.months: is required"),
        (
            "cost_rates: [{device: '*', currency: CNY, hardware_per_hour: 1, OWNED36}]",
            "cost_rates[0].owned: a device is owned or rented",
        ),
        (
            "cost_rates: [{device: '*', currency: CNY,"
            " owned: {price: 1, months: 999, residual: 0}}]",
            "owned.months: is a whole number of months, 1 to 240",
        ),
        (
            "cost_rates: [{device: '*', currency: CNY, owned: {price: 1, months: 3, residual: 2}}]",
            "owned.residual: is at most the price",
        ),
        ("cost_rates: [{device: '*', currency: CNY, load_factor: 1.2}]", "load_factor: is more"),
        ("cost_rates: [{device: '*', currency: CNY, pool: 'a b'}]", "cost_rates[0].pool: "),
        ("cost_pools: [{pool: p, idle: nobody}]", "idle: 'nobody' is unknown: use proportional"),
        (
            "cost_pools: [{pool: p, idle: reserved, practical_use: 0.8}]",
            "practical_use: belongs to idle: unallocated only",
        ),
        (
            "cost_pools: [{pool: p, idle: unallocated, practical_use: 2}]",
            "practical_use: is a part",
        ),
        ("token_weights: [{model: m, output: 0}]", "output: is more than 0"),
        ("variants: [{of: m, version: 'm:v', kind: smaller}]", "of: 'm' is no version"),
        ("variants: [{of: 'm:w', version: 'm:v', kind: big}]", "kind: 'big' is unknown: use small"),
    ],
)
def test_what_is_odd_is_told(given, said):
    given = given.replace("OWNED36", "owned: {price: 1, months: 36}")
    with pytest.raises(BadFile) as bad:
        parse(f"{BASE}{given.replace('OWNED', 'owned: {price: 1}')}\n")
    assert said in str(bad.value)
    assert len(str(bad.value).splitlines()) == 1


@pytest.mark.django_db
def test_what_is_named_must_be_there():
    text = BASE + "token_weights: [{model: x}]\nvariants: [{of: 'm:a', version: 'm:b', kind: none}]"
    with pytest.raises(BadFile) as bad:
        do(text)
    assert str(bad.value).splitlines() == [
        "7: token_weights[0].model: there is no model 'x', in the file or stored",
        "8: variants[0].of: there is no version 'm:a', in the file or stored",
        "8: variants[0].version: there is no version 'm:b', in the file or stored",
    ]


@pytest.mark.django_db
def test_it_is_stored_and_read_back_and_applying_it_again_changes_nothing():
    assert do(BASE + COSTS).done
    owned = CostRate.objects.get(pool="lab")
    assert (owned.price, owned.months, owned.power_watts) == (Decimal(150_000), 36, None)
    assert (owned.load_factor, owned.host_watts) == (Decimal("0.7"), Decimal(250))
    assert CostPool.objects.get().practical_ratio == Decimal("0.8")
    assert list(TokenWeights.objects.order_by("pk").values_list("source", flat=True)) == [
        "given",
        "given",
    ]
    assert str(Variant.objects.get()) == "m:fp8: quantised than m:bf16"
    later = AT + timedelta(hours=1)
    assert steps(BASE + COSTS, carry_out=False, at=later) == []
    dearer = COSTS.replace("practical_use: 0.8", "practical_use: 0.9").replace("quantised", "none")
    assert steps(BASE + dearer, at=later) == [
        "change cost_pool lab",
        "change variant m:fp8 for m:bf16",
    ]
    assert (CostPool.objects.count(), Variant.objects.count()) == (2, 0)


@pytest.mark.django_db
def test_measured_weights_are_kept_apart_from_those_that_a_file_gives():
    do(BASE + COSTS)
    later = AT + timedelta(hours=1)
    wanted = token_weights_wanted("m", "", "0.12", "4.4")
    save_token_weights(wanted, by="anna", reason="measured", at=later, hours=30)
    assert steps(BASE + COSTS, carry_out=False, at=later) == []
    assert TokenWeights.objects.latest("valid_from").source == "measured"
