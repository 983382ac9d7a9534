"""Cost of versions from their device time: beside utilisation, idle cost and margin."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from control.metering.cost import hours
from control.metering.cost.facts import NO_DEVICES, cost_of_model, costs_of_versions
from control.metering.cost.figures import Figure
from control.metering.cost.lines import Line
from control.metering.ingest import ship
from control.metering.spool import SpoolWriter
from control.models import (
    CostRate,
    Deployment,
    Device,
    Node,
    Replica,
    Reservation,
)
from tests.metering.conftest import AT
from tests.metering.device_time import served

HOUR = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = HOUR + timedelta(hours=2)


def a_rate(device: str, per_hour: str, currency: str = "USD", valid_from=None) -> None:
    CostRate.objects.create(
        device=device,
        currency=currency,
        hardware_per_hour=Decimal(per_hour),
        power_watts=700,
        power_per_kwh=Decimal("0.12"),
        pue=Decimal("1.35"),
        engineering_per_hour=Decimal("0.40"),
        valid_from=valid_from or datetime(2026, 11, 1, tzinfo=UTC),
    )


@pytest.fixture
def replica(house) -> Replica:
    """One launch on two cards."""
    deployment = Deployment.objects.create(name="gemma", version=house.version)
    made = Replica.objects.create(deployment=deployment, generation=1, version=house.version)
    node = Node.objects.create(name="n1", identity="x")
    for index in range(2):
        device = Device.objects.create(
            node=node,
            uuid=f"GPU-{index}",
            index=index,
            kind="gpu",
            name="NVIDIA H200",
            memory_total_bytes=100,
        )
        Reservation.objects.create(device=device, replica=made, memory=(0, 50))
    return made


def serve(house, directory, **changes) -> None:
    writer = SpoolWriter(directory, "gw-1")
    writer.append(house.close("req_1", **changes))
    writer.close()
    ship(directory, set(), AT)


def test_cost_is_device_time_at_its_rate_over_weighted_tokens(house, replica, tmp_path):
    a_rate("*", "2.50")
    serve(
        house,
        tmp_path,
        replica_id=replica.pk,
        input_tokens=2_000_000,
        cached_input_tokens=1_000_000,
        output_tokens=500_000,
    )
    served(replica, HOUR, 3600, 900)
    [cost] = costs_of_versions(HOUR, LATER)
    assert (cost.group, cost.calls, cost.currency) == (("gemma", "v1"), 1, "USD")
    assert cost.cost == Decimal("6.026800")  # two device hours at 3.0134
    assert cost.idle_cost == Decimal("4.520100")
    assert cost.utilisation_ratio == 0.25
    # 6.0268 over 1 M + 0.1 x 1 M + 4 x 0.5 M weighted tokens
    price = cost.per_million
    assert (price.input, price.cached_input, price.output) == (
        Decimal("1.944129"),
        Decimal("0.194413"),
        Decimal("7.776516"),
    )
    assert "host watts) / 1000 x PUE" in cost.formula
    assert cost.revenue == Decimal("3.250000")  # 1 + 0.25 + 4 x 0.5
    assert cost.margin_ratio == pytest.approx((3.25 - 6.0268) / 3.25)


def test_a_model_costs_less_a_token_were_its_devices_used_more(house, replica, tmp_path):
    a_rate("*", "2.50")
    tokens = {"input_tokens": 1_000_000, "cached_input_tokens": 0, "output_tokens": 250_000}
    serve(house, tmp_path, replica_id=replica.pk, **tokens)
    served(replica, HOUR, 3600, 900)
    cost = cost_of_model("gemma", HOUR, LATER)
    assert (cost.currency, cost.utilisation_ratio, cost.reason) == ("USD", Fraction(1, 4), "")
    assert cost.practised.output == Fraction("6.0268") / 2 * 4
    assert cost.at_wanted_use.output == cost.practised.output * Fraction(25, 70)
    nothing = cost_of_model("gemma", LATER, LATER + timedelta(hours=1))
    assert (nothing.practised, nothing.at_wanted_use, nothing.reason) == (None, None, NO_DEVICES)


def test_device_time_without_tokens_is_all_idle_cost_and_says_so(replica):
    a_rate("*", "2.50")
    served(replica, HOUR, 1800, 0)
    [cost] = costs_of_versions(HOUR, LATER)
    assert (cost.idle_cost, cost.cost) == (Decimal("3.013400"), Decimal("3.013400"))
    assert (cost.per_million, cost.utilisation_ratio) == (None, 0.0)
    assert "no tokens" in cost.reason


def test_without_a_rate_the_cost_is_unknown_not_zero(house, replica, tmp_path):
    a_rate("NVIDIA A100*", "2.50")
    serve(house, tmp_path, replica_id=replica.pk)
    served(replica, HOUR, 1800, 0)
    [cost] = costs_of_versions(HOUR, LATER)
    assert (cost.cost, cost.idle_cost, cost.per_million) == (None, None, None)
    assert "no cost rate fits the device 'NVIDIA H200'" in cost.reason


def test_a_version_on_no_device_of_ours_has_calls_and_no_cost(house, tmp_path):
    serve(house, tmp_path)
    hours.make(HOUR, AT)
    [cost] = costs_of_versions(HOUR, LATER)
    assert (cost.calls, cost.reason, cost.cost) == (1, NO_DEVICES, None)


def test_a_new_rate_holds_from_its_hour_on(replica):
    a_rate("*", "2.50")
    a_rate("*", "5.00", valid_from=HOUR + timedelta(hours=1, minutes=10))
    for number in range(2):
        served(replica, HOUR + timedelta(hours=number), 1800, 0)
    [cost] = costs_of_versions(HOUR + timedelta(minutes=20), LATER)
    assert cost.cost == Decimal("8.526800")  # 3.0134 + 5.5134


def test_rates_in_two_currencies_are_not_added_up(replica):
    a_rate("*", "2.50")
    a_rate("NVIDIA*", "9.00", currency="CNY", valid_from=HOUR + timedelta(hours=1, minutes=1))
    for number in range(2):
        served(replica, HOUR + timedelta(hours=number), 1800, 0)
    [cost] = costs_of_versions(HOUR, LATER)
    assert cost.reason == "its cost rates are in CNY and USD"


def test_the_number_of_queries_does_not_grow_with_what_was_used(
    replica, django_assert_max_num_queries
):
    assert costs_of_versions(HOUR - timedelta(days=2), HOUR - timedelta(days=1)) == []
    for number in range(20):
        served(replica, HOUR - timedelta(hours=number), 1800, 0)
    with django_assert_max_num_queries(6):
        costs_of_versions(HOUR - timedelta(days=1), LATER)


def test_failure_and_idle_is_every_line_that_no_tenants_call_had():
    """Errors, warm-ups, the platform's own calls, idle and crashes: the fifth part of a cost."""
    figure = Figure(("a100",))
    for number, line in enumerate(Line, 1):
        figure.line_costs[line] = Fraction(number)
    every = sum(range(1, len(Line) + 1))
    assert figure.failure_and_idle == every - figure.line_costs[Line.BUSY]
    for line in (Line.FAILURE, Line.PLATFORM, Line.WARM_UP, Line.IDLE, Line.CRASH):
        before, figure.line_costs[line] = figure.failure_and_idle, Fraction(0)
        assert figure.failure_and_idle < before
