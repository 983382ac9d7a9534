"""What a service.yaml says of billing: read, refused, stored, read back, taken away."""

from datetime import UTC, datetime, timedelta

import pytest

from control.apply.actions import apply
from control.apply.plan import lines
from control.apply.wanted import BadFile
from control.models import AuditEntry, BillingTerms, ExportSchedule
from tests.apply.documents import parse

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
LATER = AT + timedelta(hours=1)
EMPTY = "apiVersion: weir/v1\n"
BASE = """apiVersion: weir/v1
tenants: [{name: acme, timezone: Europe/Berlin}]
"""
BILLING = """
billing: {issuer: Example Ltd, region_id: eu-1, close_after_hours: 72}
exports:
  - {name: finance, what: focus, version: 1.2, tenant: acme, destination: "s3://money/weir/"}
  - {name: calls, what: usage, format: parquet, every: day, destination: "file:///var/exports"}
"""


def do(text: str, *, at=AT, carry_out=True, prune=False):
    options = {"prune": prune, "carry_out": carry_out, "environment": {}}
    return apply(text, by="anna", reason="a test", at=at, **options)


def steps(text: str, **options) -> list[str]:
    return [f"{one.verb} {one.subject}" for one in do(text, **options).plan.changes]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("billing: {provider: us}", "billing.issuer: is required"),
        ("billing: {issuer: us, tax: 19}", "billing.tax: is not understood; known here are close_"),
        ("billing: {issuer: us, close_after_hours: 9999}", "9999 is not between 0 and 744"),
        ("exports: [{name: a, what: focus}]", "exports[0].destination: is required"),
        ("exports: [{name: a, what: all, destination: 'file:///x'}]", "exports[0].what: 'all' is"),
        (
            "exports: [{name: a, what: focus, version: 1.0, destination: 'file:///x'}]",
            "exports[0].version: '1.0' is not one of 1.2, 1.4",
        ),
        (
            "exports: [{name: a, what: usage, destination: 'ftp://x'}]",
            "exports[0].destination: 'ftp://x' is no place: write file:///folder or s3://bucket",
        ),
        (
            "exports: [{name: a, what: usage, destination: 's3://x/y?z'}]",
            "exports[0].destination: 's3://x/y?z' is no place",
        ),
        (
            "exports: [{name: a, what: usage, destination: 'file:///x'},"
            " {name: a, what: costs, destination: 'file:///x'}]",
            "exports[1]: export a is named twice (first in line 3)",
        ),
    ],
)
def test_what_is_odd_is_told(given, said):
    with pytest.raises(BadFile) as bad:
        parse(f"{BASE}{given}\n")
    assert said in str(bad.value)
    assert len(str(bad.value).splitlines()) == 1


@pytest.mark.django_db
def test_a_tenant_of_an_export_must_be_there():
    with pytest.raises(BadFile) as bad:
        do(EMPTY + BILLING)
    [said] = str(bad.value).splitlines()
    assert said == "5: exports[0].tenant: there is no tenant 'acme', in the file or stored"


@pytest.mark.django_db
def test_it_is_stored_and_read_back_and_applying_it_again_changes_nothing():
    assert do(BASE + BILLING).done
    terms = BillingTerms.objects.get()
    assert (terms.issuer, terms.provider, terms.host) == ("Example Ltd",) * 3
    assert (terms.region_id, terms.close_after_hours) == ("eu-1", 72)
    finance = ExportSchedule.objects.get(name="finance")
    assert (finance.focus_version, finance.tenant.name, finance.every) == ("1.2", "acme", "month")
    assert finance.destination == "s3://money/weir"
    assert AuditEntry.objects.filter(action="save export schedule").count() == 2
    assert steps(BASE + BILLING, at=LATER) == []
    assert steps(EMPTY, at=LATER) == []


@pytest.mark.django_db
def test_a_plan_tells_what_differs():
    do(BASE + BILLING)
    other = BILLING.replace("eu-1", "eu-2").replace("every: day", "every: month")
    told = lines(do(BASE + other, carry_out=False, at=LATER).plan)
    assert [line for line in told if not line.startswith("=")] == [
        "~ change billing terms",
        "      region_id: eu-1 -> eu-2",
        "~ change export calls",
        "      every: day -> month",
    ]
    assert ExportSchedule.objects.get(name="calls").every == "day"


@pytest.mark.django_db
def test_prune_ends_schedules_and_keeps_who_invoices():
    do(BASE + BILLING)
    kept = BASE + BILLING.partition("  - {name: calls")[0]
    assert steps(kept, prune=True, at=LATER) == ["remove export calls"]
    assert ExportSchedule.objects.get().name == "finance"
    assert "remove export finance" in steps(BASE, prune=True, at=LATER)
    assert BillingTerms.objects.exists()
