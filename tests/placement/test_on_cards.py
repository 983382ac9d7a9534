"""Launches on cards, with rows: whole and shared, in turn, displaced and parted."""

from datetime import timedelta

import pytest

from control.fleet import launch, turns
from control.fleet.incidents import facts as incidents
from control.fleet.troubles import facts as troubles
from control.models import AuditEntry, Deployment, Device, Point, Project, Replica, Tenant
from control.placement import actions, books
from control.placement.memory import GIB
from control.placement.world import ProjectQuota, Room
from control.reconcile import loop
from control.states import ReplicaState, ReservationState
from tests.at_once import at_once
from tests.fleet.rows import a_version
from tests.placement.world import AT, VLLM, a_host, a_launch, wants

SHORT = {"max_model_len": 16}


def card(number=0):
    return Device.objects.order_by("index")[number]


@pytest.fixture
def host(db):
    return a_host()


def test_a_card_of_its_own_is_whole_and_the_engine_is_told_a_computed_share(host):
    wants("d", share="own")
    loop.tick(AT)
    replica = Replica.objects.select_related("deployment", "version__model").get()
    assert replica.room == Room.OWN
    assert [it.memory_bytes for it in replica.reservations.all()] == [80 * GIB]
    spec = launch.specification(replica, "/w")
    assert (spec.memory_ratio, spec.kv_cache_bytes) == (0.92, None)
    Device.objects.update(foreign_bytes=6 * GIB)
    assert launch.specification(replica, "/w").memory_ratio == pytest.approx(1 - 7.5 / 80, abs=1e-4)


def test_a_shared_card_has_a_fixed_cache_and_a_margin(host):
    wants("d")
    loop.tick(AT)
    replica = Replica.objects.select_related("deployment", "version__model").get()
    spec = launch.specification(replica, "/w")
    [booked] = [it.memory_bytes for it in replica.reservations.all()]
    assert replica.room == Room.SHARED
    assert spec.kv_cache_bytes == replica.kv_bytes
    assert spec.memory_ratio == pytest.approx(booked / (80 * GIB), abs=1e-4)
    assert launch.book_what_was_measured(replica, at=AT) is None


def test_what_waits_is_told_card_by_card_with_what_to_change(host):
    a_launch(wants("whole", share="own"), card(), 80, room=Room.OWN)
    wants("d", share="own")
    loop.tick(AT)
    note = Deployment.objects.get(name="d").note
    assert "n1/card 0 is held by whole#1, and a card of its own is wanted" in note
    assert "placement.share: shared" in note


def test_a_version_waits_for_a_card_that_runs_its_formats(host):
    asked = {"quantization": "fp8_per_channel", **SHORT}
    version = a_version("m-8", engine=VLLM, source={"path": "/x"}, arguments=asked)
    Device.objects.update(compute_capability="8.0")
    wants("d", version=version)
    loop.tick(AT)
    note = Deployment.objects.get(name="d").note
    assert "n1/card 0 cannot run it: fp8_per_channel wants compute capability 8.9" in note
    Device.objects.update(compute_capability="9.0")
    loop.tick(AT)
    assert Replica.objects.get().state == ReplicaState.PLACED


def test_p01_two_control_workers_and_ten_launches_of_thirty(transactional_db):
    a_host()
    for number in range(10):
        size = {"source": {"path": "/x", "size_bytes": 27 * GIB}, "arguments": SHORT}
        wants(f"d{number}", version=a_version(f"m-{number}", engine=VLLM, **size))

    def work():
        for _ in range(12):
            loop.tick(AT)

    at_once(work, work)
    [node] = books.nodes(AT)
    booked = sum(upper - lower for lower, upper in node.devices[0].booked)
    assert 2 * 30 * GIB <= booked <= 80 * GIB
    assert Replica.objects.filter(state=ReplicaState.PLACED).count() == 2
    assert len(node.devices[0].holders) == 2
    assert Deployment.objects.filter(note__contains="n1/card 0 has").count() == 8


def test_e01_on_a_card_with_a_process_that_will_not_die_nothing_is_placed(host):
    why = "the driver still shows processes (4711,), which have ended: it stays booked"
    ended = {"state": ReplicaState.FAILED, "ended_at": AT - timedelta(seconds=61), "reason": why}
    stuck = a_launch(wants("old"), card(), **ended)
    wants("new")
    loop.tick(AT)
    assert f"n1/card 0 holds what old#1 left: {why}" in Deployment.objects.get(name="new").note
    assert not Replica.objects.filter(deployment__name="new").exists()
    assert stuck.reservations.get().state == ReservationState.HELD
    [told] = troubles.troubles(AT)
    assert (told.kind, told.about, told.what) == (
        "stuck card",
        "n1",
        f"card 0 holds what old#1 left: {why}",
    )
    assert [one.kind for one in incidents.seen(AT)] == ["stuck card"]
    actions.release(stuck, at=AT)  # its node has seen that they are gone
    assert troubles.troubles(AT) == []
    loop.tick(AT)
    assert Replica.objects.get(deployment__name="new").state == ReplicaState.PLACED


def test_e01_what_ended_a_moment_ago_holds_its_part_of_the_card_alone(host):
    ended = {"state": ReplicaState.FAILED, "ended_at": AT - timedelta(seconds=9)}
    a_launch(wants("old"), card(), **ended)
    wants("new")
    loop.tick(AT)
    [booked] = Replica.objects.get(deployment__name="new").reservations.all()
    assert booked.memory.lower >= 20 * GIB


def test_launches_on_one_card_start_one_after_the_other(host):
    first = a_launch(wants("a"), card(), state=ReplicaState.LOADING)
    second = a_launch(wants("b"), card(), first=20, state=ReplicaState.PREPARING)

    def claim():
        return launch.claim(second, by="test", reason="test", at=AT)

    assert not claim()
    second.refresh_from_db()
    assert second.phase == "waits for the memory profile of a#1"
    warming = {"state": ReplicaState.WARMING, "progress_percent": 85}
    Replica.objects.filter(pk=first.pk).update(**warming)
    assert turns.waits_for(second, at=AT) == "a#1"
    Replica.objects.filter(pk=first.pk).update(progress_percent=90)
    assert claim()


def test_an_interactive_launch_displaces_the_youngest_batch_replica_and_then_has_its_room(host):
    a_launch(wants("night", "batch"), card())
    wants("chat", "interactive")
    loop.tick(AT)
    night = Replica.objects.get(deployment__name="night")
    assert (night.state, night.reason) == (
        ReplicaState.DRAINING,
        "gives way to chat, which is interactive",
    )
    loop.tick(AT)
    assert "until night#1 has ended" in Deployment.objects.get(name="chat").note
    assert "is kept for chat" in Deployment.objects.get(name="night").note
    night.move(ReplicaState.STOPPED, reason="gone", by="test", at=AT)
    actions.release(night, at=AT)
    loop.tick(AT)
    assert Replica.objects.filter(deployment__name="chat", state=ReplicaState.PLACED).exists()
    assert not Replica.objects.filter(deployment__name="night", state=ReplicaState.PLACED).exists()


def points(replica, **values):
    for number in range(8):
        Point.objects.create(
            subject=f"replica:{replica.pk}",
            resolution_seconds=10,
            at=AT - timedelta(seconds=10 * number),
            values=values,
        )


def test_the_younger_of_a_pair_moves_away_successor_first(db):
    a_host(cards=2)
    old = a_launch(wants("old"), card())
    young = a_launch(wants("young"), card(), first=20, ready_at=AT + timedelta(seconds=1))
    points(old, ttft_seconds=0.2, tpot_seconds=0.4)
    points(young, ttft_seconds=0.2, tpot_seconds=0.01)
    assert actions.part_neighbours(by="test", at=AT) == [young.pk]
    assert actions.part_neighbours(by="test", at=AT) == []
    assert AuditEntry.objects.get().action == "replace replica"
    loop.tick(AT)
    successor = Replica.objects.get(deployment__name="young", generation=2)
    assert successor.reservations.get().device == card(1)
    young.refresh_from_db()
    assert young.state == ReplicaState.READY
    Replica.objects.filter(pk=successor.pk).update(state=ReplicaState.READY, ready_at=AT)
    loop.tick(AT)
    young.refresh_from_db()
    assert young.state == ReplicaState.DRAINING
    assert "moves away from n1/card 0: old#1 there has a TPOT of 400 ms" in young.reason


def test_while_no_place_was_found_a_mark_is_taken_back_once_all_fare_well_again(host):
    old = a_launch(wants("old"), card())
    young = a_launch(wants("young"), card(), first=20, ready_at=AT + timedelta(seconds=1))
    points(old, ttft_seconds=0.2, tpot_seconds=0.4)
    points(young, ttft_seconds=0.2, tpot_seconds=0.01)
    assert actions.part_neighbours(by="test", at=AT) == [young.pk]
    loop.tick(AT)
    Point.objects.update(values={"ttft_seconds": 0.2, "tpot_seconds": 0.01})
    assert actions.part_neighbours(by="test", at=AT) == []
    young.refresh_from_db()
    assert young.leaving == ""
    assert [row.action for row in AuditEntry.objects.order_by("pk")][-1] == "keep replica"
    loop.tick(AT)
    assert Deployment.objects.get(name="young").note == ""


def test_a_replica_that_is_recycled_has_its_successor_placed(db):
    a_host(cards=2)
    deployment = wants("d", share="own", recycle={"calls": 10})
    a_launch(deployment, card(), 80, room=Room.OWN, calls=11)
    loop.tick(AT)
    successor = Replica.objects.get(generation=2)
    assert successor.reservations.get().device == card(1)


def test_a_quota_is_read_with_who_holds_what(host):
    tenant = Tenant.objects.create(name="acme")
    project = Project.objects.create(tenant=tenant, name="web", devices_maximum=1)
    a_launch(wants("a", project=project), card())
    assert books.quotas() == [ProjectQuota(project.pk, "acme/web", 0, 1)]
    [node] = books.nodes(AT)
    [holder] = node.devices[0].holders
    assert (holder.name, holder.project_id, holder.ends) == ("a#1", project.pk, False)


def test_at_rest_nobody_asks_for_devices(host, django_assert_max_num_queries):
    a_launch(wants("a"), card())
    loop.tick(AT)
    with django_assert_max_num_queries(12) as asked:
        loop.tick(AT)
    assert not any("control_reservation" in query["sql"] for query in asked.captured_queries)
