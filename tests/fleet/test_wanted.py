"""Desired state: deployments saved, scaled, drained, archived."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from control.checks import Refused, Unknown
from control.fleet import actions, rules
from control.fleet.rules import DeploymentWanted
from control.fleet.scaling import Scaling
from control.models import AuditEntry, Deployment, SnapshotPart
from control.states import DeploymentState, Part, ReplicaState
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica, a_version

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
WHO = {"by": "anna", "reason": "a test", "at": AT}
EXTERNAL = {"kind": "external", "url": "http://127.0.0.1:9", "served_name": "m"}


@pytest.mark.parametrize(
    ("now", "least", "most", "wanted"),
    [
        (None, 1, 1, 1),
        (None, 2, 3, 2),
        (None, 0, 1, 1),  # nothing would wake it
        (None, 0, 0, 0),
        (2, 1, 3, 2),
        (1, 2, 3, 2),
        (5, 1, 3, 3),
        (0, 0, 3, 0),
    ],
)
def test_how_many_are_wanted(now, least, most, wanted):
    assert rules.count_wanted(now, least, most) == wanted


@pytest.mark.parametrize(
    ("wanted", "fields"),
    [
        (DeploymentWanted("d", "llama-3.1", "v1.0", 0, 4, "node-1"), []),
        (DeploymentWanted("d.e", "m", "v1"), ["name"]),
        (DeploymentWanted("d", "m", "v1", 3, 2), ["replicas.max"]),
        (DeploymentWanted("d", "m", "v1", -1, 1001), ["replicas.min", "replicas.max"]),
        (DeploymentWanted("d", "m", "v1", node="a b"), ["node"]),
        (DeploymentWanted("d", "m", "v1", priority="p"), ["priority"]),
        (DeploymentWanted("d", "m", "v1", project="a/b c"), ["project"]),
    ],
)
def test_a_deployment(wanted, fields):
    assert [problem.field for problem in rules.deployment_problems(wanted)] == fields


@pytest.mark.django_db
def test_a_deployment_is_saved_once_and_then_equal():
    a_version()
    before = SnapshotPart.objects.get(pk=Part.ROUTES).version
    for _ in range(2):
        actions.save_deployment(DeploymentWanted("d", "m", "v1", 1, 2), **WHO)
    stored = Deployment.objects.get()
    assert (stored.replicas_min, stored.replicas_max, stored.replicas_wanted) == (1, 2, 1)
    assert AuditEntry.objects.count() == 1
    assert SnapshotPart.objects.get(pk=Part.ROUTES).version == before + 1


@pytest.mark.django_db
def test_a_change_of_mind_ends_the_back_off():
    deployment = a_deployment("d", launch_after=AT + timedelta(minutes=5))
    actions.scale("d", 2, 2, **WHO)
    deployment.refresh_from_db()
    assert (deployment.launch_after, deployment.replicas_wanted) == (AT, 2)


@pytest.mark.django_db
def test_an_external_engine_has_one_replica_on_no_node():
    a_version(engine=EXTERNAL)
    with pytest.raises(Refused) as refused:
        actions.save_deployment(DeploymentWanted("d", "m", "v1", 1, 2, "n1"), **WHO)
    assert [problem.field for problem in refused.value.problems] == ["replicas.max", "node"]
    actions.save_deployment(DeploymentWanted("d", "m", "v1"), **WHO)
    with pytest.raises(Refused, match="one replica"):
        actions.scale("d", 1, 2, **WHO)


@pytest.mark.django_db
def test_a_version_that_is_not_there_is_refused():
    with pytest.raises(Refused, match="no version 'v1' of model 'm'"):
        actions.save_deployment(DeploymentWanted("d", "m", "v1"), **WHO)


@pytest.mark.django_db
def test_drain_then_archive_when_the_last_replica_ended_then_back():
    deployment = a_deployment("d", replicas_min=1, replicas_max=1)
    replica = a_replica(deployment, at=AT)
    with pytest.raises(Unknown):
        actions.archive_deployment("d", **WHO)
    actions.drain_deployment("d", **WHO)
    with pytest.raises(Refused, match="still has 1 live replica"):
        actions.archive_deployment("d", **WHO)
    replica.move(ReplicaState.DRAINING, reason="drained", by="test", at=AT)
    replica.move(ReplicaState.STOPPED, reason="gone", by="test", at=AT)
    actions.archive_deployment("d", **WHO)
    deployment.refresh_from_db()
    assert deployment.state == DeploymentState.ARCHIVED
    actions.save_deployment(DeploymentWanted("d", "m-d", "v1"), **WHO)
    deployment.refresh_from_db()
    assert (deployment.state, deployment.replicas_wanted) == (DeploymentState.ACTIVE, 1)


@pytest.mark.django_db
def test_what_is_drained_is_archived_and_what_still_drains_is_not():
    for name in ("empty", "busy", "active"):
        a_deployment(name)
    for name in ("empty", "busy"):
        actions.drain_deployment(name, **WHO)
    a_replica(Deployment.objects.get(name="busy"), at=AT)
    assert actions.archive_drained(**WHO) == ["empty"]
    assert actions.archive_drained(**WHO) == []


def test_sleep_is_wanted_only_where_there_is_a_card(db):
    a_version("m", "v1")
    asks = DeploymentWanted("d", "m", "v1", replicas_min=0, scaling=Scaling(sleep=1), node="n1")
    node = a_node(at=AT)
    device = a_device(node, 64 << 30, at=AT)
    with pytest.raises(Refused, match=r"scaling\.sleep.*no node where it may run has a card"):
        actions.save_deployment(asks, **WHO)
    device.kind = "gpu"
    device.save()
    assert actions.save_deployment(asks, **WHO).scaling == {"sleep": 1}
    actions.save_deployment(replace(asks, scaling=Scaling(sleep=0)), **WHO)
    a_version("m", "v2", engine=EXTERNAL)
    with pytest.raises(Refused, match="cannot sleep"):
        actions.save_deployment(replace(asks, name="e", version="v2", node=""), **WHO)
