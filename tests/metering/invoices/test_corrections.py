"""Credits and corrections are new rows: posted once, billed in the period that is open."""

import pytest

from control.checks import Refused, Unknown
from control.metering.invoices import actions, corrections
from control.metering.ledger import balances
from control.metering.rules import PICO, Tokens
from control.models import Charge, Transfer, UsageEvent, UsageHour
from control.states import ChargeCategory
from tests.metering.conftest import AT
from tests.metering.invoices.months import DECEMBER_3, JANUARY_3, close, owed, store

CALL_PICO = 285_000_000
RIGHT = Tokens(input=90, cached_input=20, output=30, reasoning=10)  # 70 + 20 cached + 20 + 10
RIGHT_PICO = 70 * 1_000_000 + 20 * 250_000 + 30 * 4_000_000


def correct(call_id="req_1", tokens=RIGHT, at=DECEMBER_3) -> tuple[str, ...]:
    return corrections.correct_call(("acme", call_id), tokens, by="ada", reason="recount", at=at)


def grant(amount="5.00", token="sorry-1", currency="USD", at=DECEMBER_3):
    return actions.grant_credit("acme", (amount, currency), token, by="ada", reason="outage", at=at)


def test_a_correction_is_a_reversal_and_a_new_row(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    assert correct() == ("adj1", "adj2")
    assert correct(tokens=Tokens(0, 0, 0)) == ("adj3", "adj4")
    rows = UsageEvent.objects.order_by("kind").values_list("kind", "corrects", "amount_pico")
    assert list(rows) == [
        ("adj1", "final", -CALL_PICO),
        ("adj2", "final", RIGHT_PICO),
        ("adj3", "adj2", -RIGHT_PICO),
        ("adj4", "adj2", 0),
        ("final", "", CALL_PICO),
    ]
    assert owed(house.tenant) == 0
    assert sum(balances().values()) == 0


def test_events_ledger_and_rollups_agree_after_a_correction(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    correct()
    hour = UsageHour.objects.get()
    assert (hour.calls, hour.amount_pico) == (1, RIGHT_PICO)
    assert (hour.billed_input, hour.billed_cached_input) == (70, 20)
    assert (hour.billed_output, hour.billed_reasoning) == (20, 10)
    assert owed(house.tenant) == RIGHT_PICO


def test_in_an_open_period_a_correction_replaces(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    correct()
    [invoice] = close(house.tenant, AT)
    assert invoice.exact_pico == RIGHT_PICO
    assert not Charge.objects.filter(is_correction=True).exists()


def test_after_the_close_both_rows_are_on_the_next_invoice(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    [november] = close(house.tenant, AT)
    correct()
    [december] = close(house.tenant, DECEMBER_3, JANUARY_3)
    rows = Charge.objects.filter(invoice=december, is_correction=True, token_class="input")
    original = november.charges.get(token_class="input")
    assert [(row.kind, row.tokens, row.billed_pico) for row in rows.order_by("kind")] == [
        ("adj1", -80, -80_000_000),
        ("adj2", 70, 70_000_000),
    ]
    for row in rows:
        assert (row.begins_at, row.ends_at) == (original.begins_at, original.ends_at)
        assert row.corrects == f"{november.number}:{original.position}"
        assert row.unit_price_pico == 1_000_000
    assert december.exact_pico == RIGHT_PICO - CALL_PICO
    assert owed(house.tenant) == november.payable_pico + december.payable_pico


@pytest.mark.parametrize(
    ("call_id", "tokens", "says"),
    [
        ("req_9", RIGHT, "has no call 'req_9'"),
        ("req_1", Tokens(100, 20, 50), "are those that the call is billed by already"),
        ("req_1", Tokens(10, 20, 0), "more than the input"),
        ("req_1", Tokens(10, 0, 5, 6), "more than the output"),
        ("req_1", Tokens(-1, 0, 0), "input: -1 is not between"),
    ],
)
def test_what_cannot_be_corrected_is_refused(house, tmp_path, call_id, tokens, says):
    store(tmp_path, house.close("req_1"))
    with pytest.raises(Refused, match=says):
        correct(call_id, tokens)
    assert UsageEvent.objects.count() == 1


def test_a_credit_is_posted_once_and_stands_on_the_invoice(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    close(house.tenant, AT)
    assert grant() == grant()
    assert balances()[("credit_expense", "USD")] == 5 * PICO
    [december] = close(house.tenant, DECEMBER_3, JANUARY_3)
    [line] = december.lines.all()
    assert (line.category, line.rounded_pico) == (ChargeCategory.CREDIT, -5 * PICO)
    assert line.description == "Credit: outage"
    assert Charge.objects.get(category=ChargeCategory.CREDIT).transfer == "goodwill:sorry-1"
    assert owed(house.tenant) == december.payable_pico == -5 * PICO


def test_a_credit_given_in_december_is_not_on_novembers_invoice(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    grant()
    [november] = close(house.tenant, AT)
    assert not november.charges.filter(category=ChargeCategory.CREDIT).exists()
    [december] = close(house.tenant, DECEMBER_3, JANUARY_3)
    assert december.payable_pico == -5 * PICO


def test_a_token_grants_one_credit(house):
    grant()
    with pytest.raises(Refused, match="was used for another credit"):
        grant("6.00")
    with pytest.raises(Unknown):
        actions.grant_credit("nobody", ("1", "USD"), "t", by="ada", reason="r", at=AT)
    with pytest.raises(Refused, match="reason: is required"):
        actions.grant_credit("acme", ("1", "USD"), "t", by="ada", reason=" ", at=AT)
    assert Transfer.objects.count() == 1
