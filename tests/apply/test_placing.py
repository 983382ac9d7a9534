"""What a service.yaml says of where replicas go: read, refused, stored, read back."""

from datetime import UTC, datetime

import pytest

from control.apply import facts
from control.apply.actions import apply
from control.apply.wanted import BadFile
from control.models import AuditEntry, Deployment, Project
from control.placement.wanted import Objective, PlacementWanted
from control.tenancy.rules import DeviceQuota
from tests.apply.documents import parse

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
BASE = """
apiVersion: weir/v1
tenants:
  - {name: acme, projects: [{name: web, devices: {guaranteed: 2, maximum: 8}}]}
models:
  - name: m
    versions: [{name: v1, engine: {kind: vllm, version: "0.32.0"}, source: {path: /x}}]
deployments:
  - name: d
    model: m
    version: v1
"""
PLACED = """    priority: interactive
    project: acme/web
    placement:
      {share: shared, policy: spread, anti_affinity: required, pool: a100, devices: [GPU-1]}
    objective: {ttft_ms: 500}
"""
WANTED = PlacementWanted("shared", "spread", "required", "a100", ("GPU-1",))


def do(text, *, carry_out=True):
    return apply(text, environment={}, carry_out=carry_out, by="anna", reason="a test", at=AT)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("priority: urgent", "priority: 'urgent' is not one of interactive, standard, batch"),
        ("project: web", "project: 'web' names no tenant: write tenant/project"),
        ("placement: {share: half}", "placement.share: 'half' is not one of own, shared"),
        ("placement: {policy: p}", "placement.policy: 'p' is not one of pack, spread"),
        ("placement: {anti_affinity: x}", "'x' is not one of preferred, required"),
        ("placement: {pool: a b}", "placement.pool: 'a b' is no name"),
        ("placement: {devices: [a, a]}", "placement.devices[1]: 'a' is named twice"),
        ('placement: {devices: [" a"]}', "placement.devices[0]: is no uuid"),
        ("placement: {nodes: 3}", "placement.nodes: is not understood"),
        ("objective: {}", "objective: names nothing"),
        ("objective: {ttft_ms: 0}", "objective.ttft_ms: 0 is not between 1 and 600000"),
    ],
)
def test_what_is_odd_is_told_with_its_line(line, said):
    with pytest.raises(BadFile) as bad:
        parse(f"{BASE}    {line}\n")
    assert f"12: deployments[0].{said}" in str(bad.value) or said in str(bad.value)


def test_a_maximum_below_what_is_guaranteed_is_refused():
    with pytest.raises(BadFile, match="devices.maximum: 1 is below devices.guaranteed, 2"):
        parse(BASE.replace("maximum: 8", "maximum: 1"))


@pytest.mark.django_db
def test_an_external_engine_is_not_placed():
    text = """
apiVersion: weir/v1
models:
  - name: m
    versions: [{name: v1, engine: {kind: external, url: "http://a", served_name: m}}]
deployments: [{name: d, model: m, version: v1, placement: {share: shared}}]
"""
    with pytest.raises(BadFile, match="an external engine is not placed"):
        apply(text, environment={}, by="anna", reason="a test", at=AT)


@pytest.mark.django_db
def test_it_is_stored_as_it_was_asked_for_and_then_changes_nothing():
    assert do(BASE + PLACED).done
    row = Deployment.objects.get()
    assert (row.priority, str(row.project)) == ("interactive", "acme/web")
    stored = facts.load((), at=AT)
    wanted = stored.get("deployment", "d").wanted
    assert wanted.placement == WANTED
    assert wanted.objective == Objective(ttft_ms=500)
    assert stored.get("project", "acme/web").wanted.devices == DeviceQuota(2, 8)
    assert not do(BASE + PLACED, carry_out=False).plan.changes


@pytest.mark.django_db
def test_a_change_names_the_members_that_differ_and_is_audited():
    do(BASE)
    plan = do(BASE + PLACED).plan
    [step] = plan.changes
    changed = {change.field for change in step.changes}
    members = {"share", "policy", "anti_affinity", "pool", "devices"}
    assert changed == {
        *("priority", "project", "objective"),
        *(f"placement.{name}" for name in members),
    }
    last = AuditEntry.objects.filter(action="save deployment").order_by("-pk").first()
    assert last.after["placement"]["pool"] == "a100"
    assert last.before["priority"] == "standard"


@pytest.mark.django_db
def test_a_project_that_is_not_there_is_told():
    with pytest.raises(BadFile, match="there is no project 'acme/other'"):
        do(BASE + "    project: acme/other\n")
    assert do(BASE + "    project: acme/default\n").done


@pytest.mark.django_db
def test_a_change_of_device_quota_alone_is_written_and_audited():
    do(BASE)
    do(BASE.replace("maximum: 8", "maximum: 4"))
    assert Project.objects.get(name="web").devices_maximum == 4
    last = AuditEntry.objects.filter(action="save project").order_by("-pk").first()
    assert last.after["devices"] == {"guaranteed": 2, "maximum": 4}
