"""Cases of the field about books that must agree whatever is stopped or killed."""

import signal

import httpx
import pytest
from django.db import connection

from control.models import AuditEntry, UsageEvent
from control.states import Outcome
from tests.gateway.place import KEY, chat
from tests.gateway.running import Running, until
from tests.gateway.upstream import answered, streamed
from tests.threads import Threads

pytestmark = pytest.mark.django_db(transaction=True)

CALLS = 200


def stored() -> dict[str, int]:
    ids = list(UsageEvent.objects.values_list("call_id", "outcome"))
    assert len({call_id for call_id, _ in ids}) == len(ids)
    return {str(o): sum(o == outcome for _, outcome in ids) for o in Outcome}


def two_hundred(running: Running, threads: Threads) -> None:
    statuses = threads.map(lambda _: running.post(chat()).status_code, range(CALLS))
    assert set(statuses) == {200}


def a_stream(running: Running) -> bytes:
    headers = {"authorization": f"Bearer {KEY}"}
    try:
        answer = running.client.post(
            "/v1/chat/completions", json=chat(stream=True), headers=headers
        )
        return answer.content
    except httpx.HTTPError:
        return b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def test_m04_calls_that_ended_are_stored_however_the_gateway_stops(
    environment,
    key,
    engine,
    number,
):
    running = Running(environment)
    until(lambda: running.status() == 200, "the gateway is ready")
    with Threads(8) as threads:
        two_hundred(running, threads)
        engine.play(streamed("a", "b", split=64, paced=True))
        seen = len(engine.seen)
        streams = [threads.submit(a_stream, running) for _ in range(8)]  # slots of the replica
        until(lambda: len(engine.seen) == seen + 8, "eight streams run")
        running.process.send_signal(number)
        if number == signal.SIGTERM:
            until(lambda: running.status("/health") is None, "nobody listens any more")
        engine.go_on()
        answers = [stream.result() for stream in streams]
        running.process.wait(60)
    if number == signal.SIGTERM:
        assert all(answer.endswith(b"data: [DONE]\n\n") for answer in answers)
        counts = stored()  # without a start in between: what is stopped has shipped
        assert counts["complete"] == CALLS + 8
    again = Running(environment)
    try:
        until(lambda: sum(stored().values()) == CALLS + 8, "all calls are stored")
        counts = stored()
        assert counts["complete"] + counts["lost"] + counts["drained"] == CALLS + 8
        assert counts["complete"] >= CALLS
        assert not list(AuditEntry.objects.filter(by="ingest").values_list("subject", "reason"))
    finally:
        again.stop()
    assert sum(stored().values()) == CALLS + 8


def test_m04_a_database_that_is_away_loses_nothing(environment, key, engine):
    """Whoever ships waits for it; calls go on meanwhile, and each is stored once after."""
    running = Running(environment)
    try:
        until(lambda: running.status() == 200, "the gateway is ready")
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE control_usageevent RENAME TO control_usageevent_away")
        try:
            assert {running.post(chat()).status_code for _ in range(20)} == {200}
            line = "weir_spool_events"
            until(lambda: line in running.metrics(), "the page is there")

            def waiting() -> float:
                [told] = [one for one in running.metrics().splitlines() if one.startswith(line)]
                return float(told.split()[1])

            until(lambda: waiting() >= 40, "it is said how much waits")
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE control_usageevent_away RENAME TO control_usageevent")
        until(lambda: stored()["complete"] == 20, "all are stored")
    finally:
        running.stop()
    assert stored()["complete"] == 20


def test_a_full_spool_refuses_new_calls_by_name_and_says_so(environment, key, engine):
    engine.play(answered())
    running = Running({**environment, "WEIR_GATEWAY_LIMITS": '{"spool_bytes": 1}'})
    try:
        until(lambda: running.status() == 200, "it is ready while nothing waits")
        assert running.post(chat()).status_code == 200
        until(lambda: running.status() == 503, "it is not ready")
        assert running.client.get("/ready").json()["spool"] == "full"
        refused = until(lambda: answer_of(running), "a call is refused")
        assert refused.json()["error"]["code"] == "usage_backlog_full"
        assert int(refused.headers["retry-after"]) == 30
        until(lambda: "weir_spool_full 1" in running.metrics(), "the metric tells it")
    finally:
        running.stop()


def answer_of(running: Running) -> httpx.Response | None:
    answer = running.post(chat())
    return answer if answer.status_code == 503 else None
