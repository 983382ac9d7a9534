"""A replica leaves the rotation at once and returns slowly."""

import pytest

from control.gateway.http1.proof import Reply
from control.gateway.limits import Limits
from control.gateway.routing import identity
from control.gateway.routing.health import Cause, Health
from tests.gateway.place import replica

LIMITS = Limits(eject_seconds=2, eject_seconds_max=10, failures_in_a_row=3, first_byte_failures=2)


def health(*failures: Cause) -> Health:
    made = Health(LIMITS)
    for cause in failures:
        made.failed(cause, 100.0)
    return made


@pytest.mark.parametrize(
    ("failures", "out"),
    [
        ([Cause.UNREACHABLE], Cause.UNREACHABLE),
        ([Cause.IMPOSTOR], Cause.IMPOSTOR),
        ([Cause.BROKE], Cause.BROKE),
        ([Cause.DIED], Cause.DIED),
        ([Cause.STALLED], Cause.STALLED),
        ([Cause.ERROR] * 2, None),
        ([Cause.ERROR] * 3, Cause.ERROR),
        ([Cause.ERROR, Cause.SILENT, Cause.ERROR], Cause.ERROR),
        ([Cause.SLOW], None),
        ([Cause.SLOW] * 2, Cause.SLOW),
        ([Cause.BUSY] * 50, None),  # saturation is no illness
    ],
)
def test_what_makes_a_replica_leave(failures, out):
    assert health(*failures).out is out


def test_a_success_between_failures_forgives_them():
    one = health(Cause.ERROR, Cause.ERROR, Cause.SLOW)
    one.succeeded(8)
    one.failed(Cause.ERROR, 100.0)
    one.failed(Cause.SLOW, 100.0)
    assert one.out is None
    assert one.failures == 5


@pytest.mark.parametrize(
    ("cause", "seconds"), [(Cause.BROKE, 0), (Cause.DIED, 0), (Cause.UNREACHABLE, 2)]
)
def test_one_that_may_have_died_is_asked_at_once(cause, seconds):
    assert health(cause).probe_at == 100.0 + seconds


def test_probes_that_fail_come_ever_more_seldom():
    one, pauses = health(Cause.UNREACHABLE), []
    for _ in range(4):
        one.probe_failed(Cause.UNREACHABLE, 100.0)
        pauses.append(one.probe_at - 100.0)
    assert pauses == [4, 8, 10, 10]


def test_one_that_is_alone_stays_while_it_answers_at_all():
    one = Health(LIMITS)
    assert not any(one.failed(Cause.ERROR, 100.0, alone=True) for _ in range(20))
    assert one.failed(Cause.UNREACHABLE, 100.0, alone=True)


def test_one_that_comes_back_proves_itself_call_by_call():
    one = health(Cause.BROKE)
    assert one.slots(4) == 0
    one.returned()
    slots = [one.slots(4)]
    for _ in range(4):
        one.succeeded(4)
        slots.append(one.slots(4))
    assert slots == [1, 2, 3, 4, 4]


def test_a_first_failure_on_trial_is_the_last():
    one = health(Cause.BROKE)
    one.returned()
    assert one.failed(Cause.ERROR, 100.0)
    assert one.probe_at == 104.0  # not at once again


INFO = replica(1, 80, served_name="m", engine="vllm")
OTHERS = replica(1, 80, served_name="m", engine="external")


@pytest.mark.parametrize(
    ("info", "reply", "wrong"),
    [
        (INFO, Reply(200, b'{"data":[{"id":"m"}]}'), None),
        (INFO, Reply(200, b'{"data":[{"id":"x"},{"id":"m","root":"m"}]}'), None),
        (INFO, Reply(200, b'{"data":[{"id":"x"}]}'), Cause.IMPOSTOR),
        (INFO, Reply(200, b"<html>"), Cause.IMPOSTOR),
        (INFO, Reply(401, b""), Cause.IMPOSTOR),
        (INFO, Reply(404, b""), Cause.IMPOSTOR),
        (INFO, Reply(503, b""), Cause.UNREACHABLE),
        (INFO, None, Cause.UNREACHABLE),
        (OTHERS, Reply(200, b'{"data":[{"id":"x"}]}'), Cause.IMPOSTOR),
        (OTHERS, Reply(401, b""), Cause.IMPOSTOR),
        (OTHERS, Reply(404, b""), None),  # it does not say
    ],
)
def test_who_answers_is_who_serves_the_name_with_the_key(info, reply, wrong):
    assert identity.judge_models(info, reply) is wrong


def test_the_question_carries_the_key_and_the_path_of_the_replica():
    info = replica(1, 80, path="/v9")
    asked = identity.models_request(info, "secret")
    assert asked.startswith(b"GET /v9/v1/models HTTP/1.1\r\nhost: 127.0.0.1:80\r\n")
    assert b"authorization: Bearer secret\r\n" in asked
    assert b"authorization" not in identity.health_request(info, "")


@pytest.mark.parametrize(
    ("info", "reply", "wrong"),
    [
        (INFO, Reply(200, b""), None),
        (INFO, Reply(503, b""), Cause.DIED),
        (INFO, Reply(404, b""), Cause.DIED),
        (OTHERS, Reply(404, b""), None),
        (INFO, None, Cause.UNREACHABLE),
    ],
)
def test_health_is_what_health_says(info, reply, wrong):
    assert identity.judge_health(info, reply) is wrong
