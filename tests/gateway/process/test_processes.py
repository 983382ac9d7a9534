"""The real processes: a parent, its workers, the database they follow, the events they leave."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from django.conf import settings
from django.db import transaction
from django.db.models import F

from control.models import (
    CallTrace,
    Key,
    Project,
    Quota,
    RefusalCount,
    Replica,
    SnapshotPart,
    UsageEvent,
)
from control.models.sealing import digest_of
from control.states import KeyState, Part
from control.telemetry.store import Store
from tests.gateway.place import KEY, chat
from tests.gateway.running import HANG_SECONDS, Running, build_all, until
from tests.gateway.upstream import answered, error, streamed
from tests.telemetry.collector import Collector
from tests.threads import Threads

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def gateway(environment, key) -> Iterator[Running]:
    running = Running(environment)
    try:
        until(lambda: running.status() == 200, "the gateway is ready")
        yield running
    finally:
        running.stop()


def test_a_call_becomes_one_event_and_moves_the_numbers(gateway, engine):
    answer = gateway.post(chat())
    assert answer.status_code == 200
    event = until(lambda: UsageEvent.objects.first(), "the event is stored")
    assert event.call_id == answer.headers["x-request-id"]
    assert (event.input_tokens, event.output_tokens, event.outcome) == (7, 3, "complete")
    assert "authorization: bearer engine-secret" in engine.seen[0].head.lower()
    labels = 'route="chat",tenant="acme",outcome="complete",priority="standard"'
    line = f"weir_calls_total{{{labels}}} 1\n"
    until(lambda: line in gateway.metrics(), "the call is counted")

    def shows() -> bool:
        with closing(Store()) as store:
            samples = store.latest(store.subjects("gateway")).values()
        return any(one.calls_total and one.snapshot_age_seconds is not None for one in samples)

    until(shows, "its sample shows the call and how old its knowledge is")


def test_the_parent_tells_a_collector_of_kept_calls(environment, key, engine):
    engine.play(error(500))
    with Collector() as collector:
        running = Running({**environment, "WEIR_OTLP_ENDPOINT": collector.url})
        try:
            until(lambda: running.status() == 200, "the gateway is ready")
            id_ = running.post(chat()).headers["x-request-id"]
            until(lambda: collector.spans, "spans arrive")
        finally:
            running.stop()
    assert {span.trace_id.hex() for span in collector.spans} == {id_[4:]}
    [seen] = engine.seen
    assert collector.spans[-1].span_id.hex() in seen.head
    assert CallTrace.objects.get().call_id == id_


def refused_by_all(running: Running, secret: str) -> bool:
    """The kernel chooses the worker: thirty answers come from each of three."""
    return {running.post(chat(), secret).status_code for _ in range(30)} == {401}


def test_k01_a_key_that_may_no_more_is_refused_by_every_worker(environment, key, engine):
    """Blocked, deleted with its project, expired: the same answer as for a key nobody knows."""
    others = {n: f"weir-{n}-" + "x" * 30 for n in ("archived", "expiring", "unheard")}
    project = Project.objects.create(tenant=key.tenant, name="gone")
    for name, secret in others.items():
        Key.objects.create(
            tenant=key.tenant,
            project=project if name == "archived" else key.project,
            name=name,
            shown="wei…xxxx",
            digest=digest_of(secret),
        )
    SnapshotPart.raise_version(Part.IDENTITIES)
    build_all()
    limits = json.dumps({"strangers_per_minute": 1_000_000})
    running = Running({**environment, "WEIR_GATEWAY_LIMITS": limits}, processes=3)
    try:
        until(lambda: len(running.workers()) == 3, "three workers run")
        until(lambda: all(running.status() == 200 for _ in range(30)), "all are ready")
        for secret in (KEY, *others.values()):
            until(
                lambda secret=secret: {running.post(chat(), secret).status_code} == {200}, "it may"
            )
        unheard = others.pop("unheard")
        with transaction.atomic():  # and nobody builds what gateways know: they do it themselves
            Key.objects.filter(pk=key.pk).update(state=KeyState.REVOKED)
            Project.objects.filter(pk=project.pk).update(archived_at=datetime.now(UTC))
            soon = datetime.now(UTC) + timedelta(seconds=2)
            Key.objects.filter(name="expiring").update(expires_at=soon)
            SnapshotPart.raise_version(Part.IDENTITIES)
        unknown = running.post(chat(), "weir-" + "u" * 40)
        for secret in (KEY, *others.values()):
            until(lambda secret=secret: refused_by_all(running, secret), "every worker refuses it")
            assert running.post(chat(), secret).json() == unknown.json()
        with transaction.atomic():  # nobody is told: the message is lost
            Key.objects.filter(name="unheard").update(state=KeyState.REVOKED)
            SnapshotPart.objects.filter(pk=Part.IDENTITIES).update(version=F("version") + 1)
        until(lambda: refused_by_all(running, unheard), "every worker finds out")
        assert running.post(chat(), unheard).json() == unknown.json()
    finally:
        running.stop()


def test_what_the_tables_say_holds_a_moment_later(gateway, key):
    # A limit that is set and taken back, while no builder runs.
    with transaction.atomic():
        Quota.objects.create(key=key, requests_per_minute=1)
        SnapshotPart.raise_version(Part.IDENTITIES)
    until(lambda: gateway.post(chat()).status_code == 429, "the limit is obeyed")
    with transaction.atomic():
        Quota.objects.all().delete()
        SnapshotPart.raise_version(Part.IDENTITIES)
    until(lambda: gateway.post(chat()).status_code == 200, "and so is its end")
    replica = Replica.objects.get()
    replica.move("draining", reason="test", by="test", at=datetime.now(UTC))
    build_all()
    until(lambda: gateway.status() == 503, "no route is ready")
    refused = gateway.post(chat())
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "model_loading"
    assert int(refused.headers["retry-after"]) > 0
    # A key that is revoked, while no builder runs.
    with transaction.atomic():
        Key.objects.filter(pk=key.pk).update(state=KeyState.REVOKED)
        SnapshotPart.raise_version(Part.IDENTITIES)
    until(lambda: gateway.post(chat()).status_code == 401, "the key is refused")
    until(lambda: RefusalCount.objects.filter(code="invalid_api_key").exists(), "it is counted")


def test_a_killed_worker_is_replaced_and_a_stop_lets_streams_end(gateway, engine):
    engine.play(answered(hold=True))
    [worker] = gateway.workers()
    engine.when_seen(lambda: worker.send_signal(signal.SIGKILL))
    with pytest.raises(httpx.HTTPError):
        gateway.post(chat())
    event = until(lambda: UsageEvent.objects.first(), "the lost call is stored")
    assert (event.outcome, event.tokens_source) == ("lost", "estimated")

    engine.play(streamed("a", "b", "c", split=64, paced=True))
    until(lambda: gateway.status() == 200, "another worker serves")
    headers = {"authorization": f"Bearer {KEY}"}
    with gateway.client.stream(
        "POST", "/v1/chat/completions", json=chat(stream=True), headers=headers
    ) as got:
        parts = got.iter_bytes()
        text = next(parts)
        gateway.process.terminate()
        until(lambda: gateway.status("/health") is None, "nobody listens any more")
        engine.go_on()
        text += b"".join(parts)
    assert text.endswith(b"data: [DONE]\n\n")
    gateway.process.wait(HANG_SECONDS)
    assert UsageEvent.objects.filter(outcome="complete").count() == 1


def test_r01_a_killed_worker_keeps_no_slot(environment, key, engine, valkey):
    """Its leases end though others keep the key busy. What it took of rates, time refills."""
    Quota.objects.create(key=key, concurrent_calls=5)
    SnapshotPart.raise_version(Part.IDENTITIES)
    build_all()
    running = Running(environment)
    leases = f"calls:k:{key.pk}"
    try:
        until(lambda: running.status() == 200, "the gateway is ready")
        with Threads(5) as threads:
            for kill in (True, False):
                engine.play(answered(hold=True))
                seen = len(engine.seen)
                five = [threads.submit(running.post, chat()) for _ in range(5)]
                until(lambda seen=seen: len(engine.seen) == seen + 5, "five calls run")
                assert running.post(chat()).status_code == 429
                if kill:
                    held = valkey.zrange(leases, 0, -1)
                    assert len(held) == 5
                    running.workers()[0].kill()
                    engine.play(answered())
                    until(lambda: running.status() == 200, "another worker serves")
                    valkey.zadd(leases, dict.fromkeys(held, 1))  # ten seconds without renewal
                    until(lambda: running.post(chat()).status_code == 200, "a slot comes back")
                    until(lambda: not valkey.exists(leases), "all of them come back")
                else:
                    engine.go_on()
                    assert {call.result().status_code for call in five} == {200}
    finally:
        running.stop()


def test_workers_go_after_a_killed_parent_and_the_next_one_ships_what_they_left(
    environment, key, engine
):
    first = Running(environment)
    until(lambda: first.status() == 200, "the gateway is ready")
    [worker] = first.workers()
    first.process.send_signal(signal.SIGSTOP)  # it ships nothing any more
    answer = first.post(chat())
    first.process.kill()
    first.process.wait(HANG_SECONDS)
    second = Running(environment)
    try:
        worker.wait(HANG_SECONDS)
        until(lambda: UsageEvent.objects.filter(call_id=answer.headers["x-request-id"]), "shipped")
    finally:
        assert second.stop() == 0


def test_workers_share_one_port_and_a_copy_serves_when_the_database_is_away(environment, key):
    first = Running(environment, processes=2)
    try:
        until(lambda: len(first.workers()) == 2, "both workers run")
        # The kernel chooses the worker: twenty good answers come from both.
        until(lambda: all(first.status() == 200 for _ in range(20)), "both are ready")
        assert {first.post(chat()).status_code for _ in range(8)} == {200}
    finally:
        first.stop()
    assert until(lambda: UsageEvent.objects.count() == 8, "all calls are stored")

    second = Running({**environment, "WEIR_DATABASE_URL": "postgresql://weir@127.0.0.1:1/weir"})
    try:
        until(lambda: second.status() == 200, "it is ready without a database")
        assert second.post(chat()).status_code == 200
        mode = os.stat(settings.WEIR_HOME / "snapshot" / "identities.json").st_mode
        assert mode & 0o777 == 0o600
        stored = (settings.WEIR_HOME / "snapshot" / "replicas.json").read_text()
        assert "engine-secret" not in stored
        assert json.loads(stored)["replicas"]
    finally:
        second.stop()
