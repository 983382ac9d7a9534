"""Routes: whole, weighted, heard by the gateways."""

from datetime import UTC, datetime

import pytest

from control.checks import Bucket, Refused, Unknown
from control.models import AuditEntry, SnapshotPart
from control.routes import actions, rules
from control.routes.compiler import compile_part
from control.routes.wanted import RouteWanted, RuleWanted, TargetWanted
from control.states import Part
from control.tenancy.actions import save_tenant
from control.tenancy.rules import TenantWanted
from tests.fleet.rows import a_deployment

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
WHO = {"by": "anna", "reason": "a test", "at": AT}
ONE, TWO = TargetWanted("one"), TargetWanted("two", 20)


def compiled():
    return compile_part(Part.ROUTES, 1).routes


def version() -> int:
    return SnapshotPart.objects.get(pk=Part.ROUTES).version


@pytest.mark.parametrize(
    ("wanted", "fields"),
    [
        (RouteWanted("chat", (ONE, TWO), ("\n\n",), 10, 20), []),
        (RouteWanted("a b", (ONE,)), ["name"]),
        (RouteWanted("chat", ()), ["targets"]),
        (RouteWanted("chat", (ONE, ONE)), ["targets[0].deployment", "targets[1].deployment"]),
        (RouteWanted("chat", (TargetWanted("one", 1001),)), ["targets[0].weight"]),
        (RouteWanted("chat", (TargetWanted("one", 0),)), ["targets"]),
        (RouteWanted("chat", (ONE,), ("",)), ["stop[0]"]),
        (RouteWanted("chat", (ONE,), ("\x00", "\ud800")), ["stop[0]", "stop[1]"]),
        (RouteWanted("chat", (ONE,), ("x",) * 9), ["stop"]),
        (RouteWanted("chat", (ONE,), (), 0), ["output_tokens_default"]),
        (RouteWanted("chat", (ONE,), (), 20, 10), ["output_tokens_default"]),
        (RouteWanted("chat", (ONE,), note="\x1b"), ["note"]),
    ],
)
def test_a_route(wanted, fields):
    assert [problem.field for problem in rules.route_problems(wanted)] == fields


@pytest.mark.django_db
def test_a_route_is_saved_whole_and_heard_once():
    a_deployment("one")
    a_deployment("two")
    before = version()
    actions.save_route(RouteWanted("chat", (ONE, TWO), ("\n\n",), note="base model"), **WHO)
    [route] = compiled().values()
    assert [(target.deployment, target.weight) for target in route.targets] == [
        ("one", 100),
        ("two", 20),
    ]
    assert route.stop == ("\n\n",)
    actions.save_route(RouteWanted("chat", (TWO,)), **WHO)
    [route] = compiled().values()
    assert ([target.deployment for target in route.targets], route.stop) == (["two"], ())
    actions.save_route(RouteWanted("chat", (TWO,)), **WHO)
    assert (version(), AuditEntry.objects.count()) == (before + 2, 2)


@pytest.mark.django_db
def test_a_target_must_be_there():
    with pytest.raises(Refused, match="there is no deployment 'one'"):
        actions.save_route(RouteWanted("chat", (ONE,)), **WHO)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"fallback": "three"}, "fallback: there is no deployment 'three'"),
        (
            {"rules": (RuleWanted((TWO, TargetWanted("three")), hours=(1, 2)),)},
            "rules[0].targets[1].deployment: there is no deployment 'three'",
        ),
        (
            {"rules": (RuleWanted((TWO,), tenants=("acme", "nobody")),)},
            "rules[0].tenants[1]: there is no tenant 'nobody'",
        ),
    ],
)
def test_what_a_route_names_must_be_there(wanted, said):
    a_deployment("one")
    a_deployment("two")
    save_tenant(TenantWanted("acme"), **WHO)
    with pytest.raises(Refused) as refusal:
        actions.save_route(RouteWanted("chat", (ONE,), **wanted), **WHO)
    assert str(refusal.value) == said


@pytest.mark.django_db
def test_how_calls_are_treated_is_audited_and_saved_once():
    a_deployment("one")
    wanted = RouteWanted("chat", (ONE,), policy="sticky", bucket=Bucket(2), waiting_seconds=3)
    actions.save_route(wanted, **WHO)
    actions.save_route(wanted, **WHO)
    entry = AuditEntry.objects.get()
    assert entry.after["policy"] == "sticky"
    assert entry.after["bucket"]["calls_per_second"] == 2


@pytest.mark.django_db
def test_an_archived_route_is_gone_from_the_gateways_until_it_is_saved_again():
    a_deployment("one")
    actions.save_route(RouteWanted("chat", (ONE,)), **WHO)
    actions.archive_route("chat", **WHO)
    assert compiled() == {}
    with pytest.raises(Unknown):
        actions.archive_route("chat", **WHO)
    actions.save_route(RouteWanted("chat", (ONE,)), **WHO)
    assert list(compiled()) == ["chat"]
