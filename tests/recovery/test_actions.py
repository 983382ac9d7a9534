"""A failure becomes an override, an override a launch that differs; operators undo both."""

from datetime import UTC, datetime, timedelta

import pytest

from control.checks import Refused
from control.fleet import actions as fleet
from control.fleet import launch
from control.fleet.rules import DeploymentWanted
from control.models import AuditEntry, Override, Replica, Route, SnapshotPart
from control.placement import actions as placement
from control.placement import books, overrides
from control.placement import facts as placement_facts
from control.placement.changes import Changes
from control.placement.memory import GIB
from control.placement.world import Share
from control.reconcile import loop
from control.recovery import actions, facts
from control.routes import compiler
from control.states import Part, ReplicaState
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica, a_version

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
VLLM = {"kind": "vllm", "version": "0.32.0"}
WHO = {"by": "test", "reason": "test", "at": AT}


@pytest.fixture
def node(db):
    node = a_node(at=AT)
    a_device(node, 64 * GIB, at=AT)
    return node


def a_failure(node, cause="memory_short_while_serving", generation=1, deployment=None, **fields):
    deployment = deployment or a_deployment(version=a_version(engine=VLLM))
    fields = {"reason": "CUDA out of memory", "slots": 16, "ended_at": AT} | fields
    replica = a_replica(
        deployment, node, at=AT, state="failed", cause=cause, generation=generation, **fields
    )
    placement.book(replica, (Share(node.devices.first().pk, ((0, GIB),)),))
    placement.release(replica, at=AT)
    return replica


def recover(at=AT):
    actions.recover(by="reconcile", at=at)


def test_out_of_memory_while_serving_shrinks_slots_and_tokens_and_guards(node):
    replica = a_failure(node)
    recover()
    [override] = Override.objects.all()
    assert override.changes == {"max_num_seqs": 12, "max_num_batched_tokens": 1536}
    deployment = replica.deployment
    deployment.refresh_from_db()
    assert deployment.guarded_until == AT + timedelta(minutes=10)
    assert AuditEntry.objects.get().action == "cure deployment"
    # The next launch is made of it.
    again = a_replica(deployment, node, at=AT, state="preparing", generation=2)
    placement.book(again, (Share(node.devices.first().pk, ((0, 8 * GIB),)),))
    assert launch.slots_of(again) == 12
    again.slots = 12
    assert launch.specification(again, "/w").arguments["max_num_batched_tokens"] == 1536


def test_one_failure_is_cured_once(node):
    a_failure(node)
    recover()
    recover()
    assert Override.objects.count() == 1


def test_a_failure_that_comes_back_is_cured_further(node):
    first = a_failure(node)
    recover()
    a_failure(node, generation=2, deployment=first.deployment, slots=12)
    recover()
    cured = overrides.in_force(first.version, first.deployment)
    assert cured == Changes(max_num_seqs=9, max_num_batched_tokens=1152)


SMALL = "To serve at least one request … the estimated maximum model length is 384. Try increasing"


def test_a_shorter_context_is_served_only_where_that_is_allowed(node):
    replica = a_failure(node, "kv_cache_too_small", reason=SMALL, retry=False)
    recover()
    assert not Override.objects.exists()
    replica.refresh_from_db()
    assert "384 tokens would fit: set max_model_len or allow_shorter_context" in replica.reason
    recover()  # and it is said once
    assert Replica.objects.get().reason == replica.reason
    replica.deployment.allow_shorter_context = True
    replica.deployment.save()
    recover()
    assert Override.objects.get().changes == {"max_model_len": 384}


def test_what_would_fail_the_same_way_is_launched_again_once_it_is_cured(node):
    replica = a_failure(node, "kv_cache_too_small", reason=SMALL, retry=False)
    loop.tick(AT)
    replica.deployment.refresh_from_db()
    assert replica.deployment.hindrance == "given_up"
    replica.deployment.allow_shorter_context = True
    replica.deployment.save()
    loop.tick(AT + timedelta(seconds=1))
    loop.tick(AT + timedelta(seconds=9))
    again = Replica.objects.get(generation=2)
    assert again.state == ReplicaState.PLACED
    need = placement_facts.need(again.version, again.deployment)
    assert (
        need.sizes["cpu"].call_bytes
        < placement_facts.need(
            a_version("other", engine=VLLM, arguments={"max_model_len": 4096}),
            a_deployment("other"),
        )
        .sizes["cpu"]
        .call_bytes
    )


def test_more_memory_is_booked_where_none_was_left_for_cache_blocks(node):
    replica = a_failure(node, "cache_blocks_short", retry=False)
    before = placement_facts.need(replica.version, replica.deployment).sizes["cpu"]
    recover()
    after = placement_facts.need(replica.version, replica.deployment).sizes["cpu"]
    assert after.fixed_bytes == before.fixed_bytes * 5 // 4
    assert after.kv_bytes == before.kv_bytes


def test_a_host_whose_memory_ran_out_takes_fewer_engines_and_says_so(node):
    other = a_deployment("other")
    a_replica(other, node, at=AT, generation=1)
    a_failure(node, "host_memory_exhausted")
    recover()
    assert Override.objects.get().changes == {"host_engines_max": 1}
    assert books.nodes(AT)[0].blocked.startswith("runs 1 of 1 engines")


def test_a_device_that_others_hold_is_avoided_for_a_while(node):
    first = a_failure(node, "device_occupied")
    recover()
    assert not Override.objects.exists()
    a_failure(node, "device_occupied", generation=2, deployment=first.deployment)
    recover()
    need = placement_facts.need(first.version, first.deployment)
    assert need.avoid == {node.devices.get().pk}
    recover(AT + timedelta(minutes=11))
    assert overrides.in_force(first.version, first.deployment) == Changes()


def test_an_operator_drops_an_override_and_it_does_not_come_back(node):
    a_failure(node)
    recover()
    [shown] = facts.of_deployment("d")
    assert shown.changes == "max_num_seqs 12, max_num_batched_tokens 1,536"
    before = SnapshotPart.objects.get(part="routes").version
    actions.drop_override("d", shown.id, **WHO)
    recover()
    assert facts.of_deployment("d") == []
    assert SnapshotPart.objects.get(part="routes").version > before
    assert AuditEntry.objects.filter(action="drop override", subject="d").exists()
    with pytest.raises(Refused):
        actions.drop_override("d", shown.id, **WHO)


def test_e05_a_crash_loop_stops_until_an_operator_says_retry(node):
    deployment = a_deployment()
    a_failure(node, "crashed", deployment=deployment)
    for generation in range(2, 11):
        a_failure(node, "crashed", generation, deployment, reason="KeyError: 'x'")
    later = AT + timedelta(hours=1)
    node.devices.update(read_at=later)
    node.heartbeat_at = later
    node.save()
    loop.tick(later)
    deployment.refresh_from_db()
    assert deployment.note.startswith(
        "crash loop: stopped after 10 failures in a row. crashed: Key"
    )
    assert not loop.tick(later + timedelta(seconds=5))
    actions.retry("d", by="test", reason="the bug is fixed", at=later + timedelta(seconds=6))
    loop.tick(later + timedelta(seconds=7))
    assert Replica.objects.get(generation=11).state == ReplicaState.PLACED


def test_a_card_that_two_versions_died_on_is_quarantined_until_it_is_released(node):
    card = a_device(node, 80 * GIB, at=AT, kind="gpu", uuid="GPU-1", name="H200")
    for name in ("a", "b"):
        replica = a_failure(node, "killed", deployment=a_deployment(name))
        replica.reservations.update(device=card)
    recover()
    card.refresh_from_db()
    assert card.quarantine_reason == "m-a:v1 and m-b:v1 died on it"
    [facts_of_node] = books.nodes(AT)
    assert "is quarantined" in next(it.blocked for it in facts_of_node.devices if it.id == card.pk)
    actions.release_device("n1", "GPU-1", **WHO)
    recover()
    card.refresh_from_db()
    assert card.quarantined_at is None
    assert AuditEntry.objects.filter(action="release device", subject="GPU-1").exists()


def test_a_card_whose_driver_told_of_an_error_of_its_own_is_quarantined(node):
    card = a_device(node, 80 * GIB, at=AT, kind="gpu", uuid="GPU-1", xid_last=79, xid_at=AT)
    program = a_device(node, 80 * GIB, at=AT, kind="gpu", uuid="GPU-2", xid_last=31, xid_at=AT)
    recover()
    card.refresh_from_db()
    program.refresh_from_db()
    assert card.quarantine_reason == "Xid 79: the card has fallen off the bus"
    assert program.quarantined_at is None


def test_memory_errors_that_were_known_at_its_release_count_no_longer(node):
    card = a_device(node, 80 * GIB, at=AT, kind="gpu", uuid="GPU-1", ecc_uncorrected=3)
    recover()
    card.refresh_from_db()
    assert card.quarantine_reason == "3 uncorrected memory errors"
    actions.release_device("n1", "GPU-1", **WHO)
    recover()
    card.refresh_from_db()
    assert card.quarantined_at is None


def test_gateways_learn_of_the_guard_and_of_a_shorter_context(node):
    replica = a_failure(node)
    route = Route.objects.create(name="chat")
    route.targets.create(deployment=replica.deployment, weight=1)
    recover()
    routes = compiler.compile_part(Part.ROUTES, 1)
    info = routes.deployments["d"]
    assert info.guarded_until == (AT + timedelta(minutes=10)).timestamp()
    assert info.guard_tokens == 1536  # one step of the smaller batch
    assert routes.routes["chat"].targets[0].context_tokens is None
    Override.objects.update(changes={"max_model_len": 384})
    routes = compiler.compile_part(Part.ROUTES, 2)
    assert routes.routes["chat"].targets[0].context_tokens == 384


def test_what_a_version_taught_ends_with_it(node):
    replica = a_failure(node)
    recover()
    wanted = DeploymentWanted("d", replica.version.model.name, "v2", allow_shorter_context=True)
    a_version(replica.version.model.name, "v2", engine=VLLM)
    fleet.save_deployment(wanted, **WHO)
    assert not Override.objects.filter(dropped_at=None).exists()


def test_a_version_that_died_on_two_cards_is_named_and_no_card_is_taken(node):
    cards = [a_device(node, 80 * GIB, at=AT, kind="gpu", uuid=f"GPU-{n}") for n in (1, 2)]
    deployment = a_deployment()
    for generation, card in enumerate(cards, start=1):
        replica = a_failure(node, "killed", generation, deployment)
        replica.reservations.update(device=card)
    recover()
    assert facts.blamed("d", AT) == "m-d:v1 died on 2 devices: it is the version"
    assert not node.devices.exclude(quarantined_at=None).exists()
