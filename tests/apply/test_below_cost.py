"""A plan says of a price that asks less than tokens cost what carrying it out would say."""

import io

from django.core.management import call_command

from control.models import PriceBook
from tests.apply.applying import do, refusal
from tests.metering.conftest import house
from tests.metering.cost.test_facts import LATER, replica
from tests.metering.prices.test_costs import costly

__all__ = ["costly", "house", "replica"]  # fixtures

FILE = """apiVersion: weir/v1
models:
- name: gemma
  versions: [{name: v2, engine: {kind: external, url: "http://127.0.0.1:9", served_name: gemma}}]
prices:
- {model: gemma, currency: EUR, per_million: {input: "0.1", output: "0.1"}, tenant: acme}
- model: gemma
  currency: USD
  per_million: {input: "1.8", cached_input: "0.2", output: "7"}
tenants: [{name: acme}]
"""
WITH_REASON = FILE.replace("  currency: USD\n", "  currency: USD\n  below_cost_reason: a launch\n")


def test_a_plan_warns_of_a_price_below_cost_with_its_line(costly):
    applied = do(FILE, at=LATER, carry_out=False)
    [warning] = applied.warnings
    assert warning.line == 7
    told = str(warning)
    assert "below_cost_reason: is needed to ask less than tokens cost in USD" in told
    assert "input of every priority at 1.8 costs 1.94413" in told
    assert refusal(FILE, at=LATER) == told
    assert not PriceBook.objects.filter(model__name="gemma").exclude(version=1).exists()


def test_nothing_is_warned_of_that_would_be_carried_out(costly):
    assert do(WITH_REASON, at=LATER, carry_out=False).warnings == ()
    assert do(WITH_REASON, at=LATER).done
    assert do(WITH_REASON, at=LATER, carry_out=False).warnings == ()
    [cheap] = PriceBook.objects.filter(tenant=None)
    assert cheap.below_cost_reason == "a launch"


def test_the_command_tells_it_as_it_tells_what_is_wrong(costly, tmp_path, monkeypatch):
    file = tmp_path / "service.yaml"
    file.write_text(FILE)
    monkeypatch.setattr("django.utils.timezone.now", lambda: LATER)
    out, err = io.StringIO(), io.StringIO()
    call_command("apply", "-f", str(file), stdout=out, stderr=err)
    assert err.getvalue().startswith(f"{file}:7: prices[1]: price gemma: below_cost_reason:")
    assert "(--yes would be refused)" in err.getvalue()
    assert "Nothing was changed" in out.getvalue()
