"""Sums for pages: grouped, exact, in both currencies when there are two."""

from datetime import timedelta

import pytest

from control.checks import Refused
from control.metering import facts
from control.metering.exports import UsageWanted, month
from control.metering.facts import Amount
from control.metering.ingest import ship
from control.metering.records import Refused as RefusedCalls
from control.metering.rules import amount_text
from control.metering.spool import SpoolWriter
from control.models import Price
from tests.metering.conftest import AT, a_house

NOVEMBER = UsageWanted(*month("2026-11"))


def store(directory, *records) -> None:
    writer = SpoolWriter(directory, "gw-1")
    for record in records:
        writer.append(record)
    writer.close()
    ship(directory, set(), AT)


def test_usage_is_summed_by_what_was_asked_for(house, tmp_path):
    other = a_house("other")
    day_after = AT.timestamp() + 86400
    store(
        tmp_path,
        house.close("req_1"),
        house.close("req_2", reasoning_tokens=3),
        other.close("req_3", started_at=day_after),
        house.close("req_4", version_id=None),
    )
    rows = facts.usage(NOVEMBER, ("tenant", "model"))
    assert [(row.group, row.calls, row.input_tokens, row.reasoning_tokens) for row in rows] == [
        (("acme", "gemma"), 2, 200, 3),
        (("acme", None), 1, 100, 0),
        (("other", "gemma"), 1, 100, 0),
    ]
    assert rows[0].amounts == (Amount("USD", "0.00057"),)
    assert rows[1].amounts == ()
    days = facts.usage(NOVEMBER, ("day",))
    assert [row.group[0].day for row in days] == [20, 21]
    only = UsageWanted(*month("2026-11"), tenant="other")
    assert [row.calls for row in facts.usage(only, ("key",))] == [1]


@pytest.mark.parametrize(
    ("since_minutes", "until_minutes", "calls"),
    [
        *((0, 60, 6), (0, 180, 18), (30, 90, 6), (30, 60, 3), (10, 50, 4), (0, 10, 1), (10, 10, 0)),
        *((-330, 1110, 18), (50, 130, 8), (179, 181, 0), (170, 171, 1), (-60, 5, 1)),
    ],
)
def test_parts_of_hours_are_summed_from_events_to_the_instant(
    house, tmp_path, since_minutes, until_minutes, calls
):
    """One call each ten minutes, for three hours."""
    starts = [AT.timestamp() + 600 * n for n in range(18)]
    store(tmp_path, *(house.close(f"req_{n}", started_at=at) for n, at in enumerate(starts)))
    span = AT + timedelta(minutes=since_minutes), AT + timedelta(minutes=until_minutes)
    rows = facts.usage(UsageWanted(*span), ("model", "outcome"))
    assert sum(row.calls for row in rows) == calls == facts.events_count(UsageWanted(*span))
    assert len(rows) == bool(calls)
    if calls:
        amounts = (Amount("USD", amount_text(calls * 285_000_000)),)
        assert (rows[0].group, rows[0].amounts) == (("gemma", "complete"), amounts)
        assert sum(row.output_tokens for row in facts.usage(UsageWanted(*span), ("hour",))) == (
            50 * calls
        )


def test_calls_in_two_currencies_are_one_row_with_two_amounts(house, tmp_path):
    Price.objects.create(
        model=house.version.model,
        currency="CNY",
        input_pico=0,
        cached_input_pico=0,
        output_pico=2_000_000,
        valid_from=AT,
    )
    before = (AT - timedelta(hours=1)).timestamp()
    store(tmp_path, house.close("req_1"), house.close("req_2", started_at=before))
    [row] = facts.usage(NOVEMBER)
    assert (row.calls, row.amounts) == (2, (Amount("CNY", "0.0001"), Amount("USD", "0.000285")))


def test_an_unknown_group_is_refused_with_the_known_ones():
    with pytest.raises(Refused, match="'moon' is unknown: use model"):
        facts.usage(NOVEMBER, ("moon",))


def test_calls_are_listed_newest_first(house, tmp_path, django_assert_num_queries):
    store(
        tmp_path,
        *(
            house.close(
                f"req_{n}", started_at=AT.timestamp() + n, first_token_at=AT.timestamp() + n + 1
            )
            for n in range(5)
        ),
    )
    with django_assert_num_queries(1):
        page = facts.events(NOVEMBER, first=1, count=2)
    assert [event.call_id for event in page] == ["req_3", "req_2"]
    event = page[0]
    assert (event.tenant, event.model, event.version, event.amount) == (
        "acme",
        "gemma",
        "v1",
        "0.000285",
    )
    assert event.ttft_seconds == 1.0
    assert facts.events_count(NOVEMBER) == 5


def test_refusals_are_summed(house, tmp_path):
    minute = int(AT.timestamp()) // 60 * 60
    store(
        tmp_path,
        RefusedCalls("acme", house.key.pk, "rate", minute, 2),
        RefusedCalls("acme", house.key.pk, "rate", minute + 60, 3),
    )
    assert facts.refusals(AT, AT + timedelta(minutes=1)) == [("acme", "rate", 2)]
    assert facts.refusals(AT, AT + timedelta(hours=1)) == [("acme", "rate", 5)]


def test_prices_in_force(house):
    Price.objects.create(
        model=house.version.model,
        currency="USD",
        input_pico=100_001,
        cached_input_pico=0,
        output_pico=400_000,
        valid_from=AT,
    )
    [price] = facts.prices(AT)
    assert (price.input, price.cached_input, price.output) == ("0.100001", "0", "0.4")
    assert facts.prices(AT - timedelta(days=1))[0].input == "1"
