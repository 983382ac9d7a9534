"""Requests without a valid key: so many a minute from one address, and no more memory than that."""

import pytest

from control.gateway.admission.strangers import Strangers
from tests.gateway.place import KEY, Place, Time, chat


def strangers(**changes) -> Strangers:
    given = {"per_minute": 3, "processes": 1, "addresses_max": 100, "clock": Time().now}
    return Strangers(**(given | changes))


def test_so_many_are_borne_at_once_and_then_one_each_while():
    time = Time()
    known = strangers(clock=time.now)
    assert [known.wait_seconds("10.0.0.1") for _ in range(3)] == [0, 0, 0]
    wait = known.wait_seconds("10.0.0.1")
    assert 19 < wait <= 20
    assert known.wait_seconds("10.0.0.2") == 0
    time.pushed_seconds += wait
    assert known.wait_seconds("10.0.0.1") == 0


@pytest.mark.parametrize(
    ("address", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("", "", True),
    ],
)
def test_addresses_of_one_network_count_as_one(address, other, same):
    known = strangers(per_minute=1)
    assert known.wait_seconds(address) == 0
    assert (known.wait_seconds(other) > 0) == same


def test_each_process_bears_its_share():
    known = strangers(per_minute=6, processes=3)
    assert [known.wait_seconds("10.0.0.1") == 0 for _ in range(3)] == [True, True, False]


def test_memory_is_bounded_and_the_oldest_is_forgotten():
    known = strangers(per_minute=1, addresses_max=10)
    for number in range(1000):
        assert known.wait_seconds(f"10.0.0.{number}") == 0
        assert len(known) <= 10
    assert known.wait_seconds("10.0.0.999") > 0
    assert known.wait_seconds("10.0.0.1") == 0


async def test_requests_without_a_valid_key_are_limited_and_others_are_not(tmp_path):
    async with Place(tmp_path / "strict", limits={"strangers_per_minute": 2}) as place:
        answers = [await place.post(chat(), key=f"weir-wrong-{n}") for n in range(3)]
        assert [answer.status for answer in answers] == [401, 401, 429]
        assert (answers[2].error["type"], answers[2].error["code"]) == (
            "requests",
            "rate_limit_exceeded",
        )
        assert 1 <= int(answers[2].headers["retry-after"]) <= 30
        assert (await place.request("GET", "/v1/models")).status == 429
        assert (await place.get("/v1/models", key=KEY)).status == 200
        assert (await place.request("GET", "/health")).status == 200
        assert place.refusals() == {"invalid_api_key": 2, "rate_limit_exceeded": 2}
        place.push(30)
        assert (await place.post(chat(), key="weir-wrong")).status == 401
