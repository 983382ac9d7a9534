"""Advice of a month from what versions measured, at the same use of their devices."""

from datetime import timedelta
from decimal import Decimal

import pytest

from control.catalog.advice import facts
from control.metering.cost import hours
from control.metering.ingest import ship
from control.models import (
    CostRate,
    Deployment,
    Replica,
    Variant,
    Version,
    VersionMeasure,
    VersionPeak,
)
from control.placement.kv_cache import kv_cost
from control.placement.model import ModelFacts, Shape
from control.placement.weights import Weights
from tests.metering.conftest import AT, House, spool
from tests.metering.device_time import seen

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 2048,
}
LATER = AT + timedelta(hours=1)
TOKENS = {"input_tokens": 1_000_000, "cached_input_tokens": 0, "output_tokens": 250_000}


@pytest.fixture
def served(house: House, tmp_path) -> dict[str, Replica]:
    """A dear version with half of its devices used, and a cheap one that was idle mostly."""
    CostRate.objects.create(
        device="*",
        currency="USD",
        hardware_per_hour=8,
        power_watts=0,
        power_per_kwh=0,
        pue=1,
        engineering_per_hour=0,
        valid_from=AT - timedelta(days=9),
    )
    small = Version.objects.create(
        model=house.version.model, name="fp8", engine={"kind": "stub"}, digest="e"
    )
    Variant.objects.create(of=house.version, version=small, kind="quantised", created_at=AT)
    closes, replicas = [], {}
    for number, version in enumerate((house.version, small), 1):
        deployment = Deployment.objects.create(name=f"d{number}", version=version)
        replica = Replica.objects.create(
            deployment=deployment, generation=1, version=version, ready_at=AT
        )
        named = {"replica_id": replica.pk, "version_id": version.pk}
        closes.append(house.close(f"req_{number}", **named, **TOKENS))
        replicas[version.name] = replica
    spool(tmp_path, *closes)
    ship(tmp_path, set(), AT)
    for uuid, replica, busy in (("A", replicas["v1"], 1800), ("B", replicas["fp8"], 450)):
        seen(uuid, AT, {("busy", replica.pk): busy, ("idle", replica.pk): 3600 - busy})
    hours.make(AT, AT)
    return replicas


def test_the_same_calls_on_a_variant_at_the_same_use(served):
    [one] = facts.advice(AT, LATER)
    assert (one.deployment, one.version, one.variant) == ("d1", "gemma:v1", "gemma:fp8")
    # The trial cost 8 for the same tokens at 12.5 % use: at 50 % it would have been 2.
    assert (one.cost, one.would_cost, one.saving) == (
        Decimal("8.00"),
        Decimal("2.00"),
        Decimal("6.00"),
    )
    assert (one.calls, one.saving_ratio, one.ttft_ms, one.would_ttft_ms) == (1, 0.75, 200, 200)


def test_a_variant_that_never_served_says_so(served):
    other = Version.objects.create(
        model=served["v1"].version.model, name="tiny", engine={"kind": "stub"}, digest="f"
    )
    Variant.objects.create(of=served["v1"].version, version=other, kind="distilled", created_at=AT)
    _, unknown = facts.advice(AT, LATER)
    assert (unknown.variant, unknown.saving) == ("gemma:tiny", None)
    assert "has served nothing" in unknown.reason


def test_without_variants_there_is_no_advice(served):
    Variant.objects.all().delete()
    assert facts.advice(AT, LATER) == []
    assert facts.quantised(LATER) == []


def test_a_quantisation_is_judged_by_what_its_launches_took(served):
    version = served["fp8"].version
    for device, taken in (("H200", 12 * 10**8), ("L4", 10**9), ("A10", None)):
        VersionPeak.objects.create(
            version=version,
            device_name=device,
            device_kind="gpu",
            weights_bytes=taken,
            measured_at=AT,
        )
    assert facts.quantised(LATER) == []  # nothing is known of its files
    model = ModelFacts("llama", Weights(linear_bytes=10**9), kv_cost(LLAMA), Shape())
    VersionMeasure.objects.create(
        version=version, weights_bytes=10**9, kv_cost={}, facts=model.to_dict(), measured_at=AT
    )
    found = {one.device: one for one in facts.quantised(LATER)}
    assert {name: one.less_than_promised for name, one in found.items()} == {
        "H200": True,
        "L4": False,
    }
    assert (found["H200"].promised_bytes, found["H200"].measured_bytes) == (10**9, 12 * 10**8)
    assert found["L4"].tokens_saved_ratio == 0.75
