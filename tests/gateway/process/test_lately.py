"""Retries of the last minute, from counters that only grow."""

from control.gateway.process.lately import Counts, Lately
from control.telemetry.messages import GatewaySample


def told(lately: Lately, at: float, calls: int, tries: int, owner="a") -> tuple[int, int]:
    found = lately.of(GatewaySample(at=at, owner=owner), Counts(calls, tries, 2 * calls, tries))
    assert found["requests_lately"] == 2 * found["calls_lately"]
    assert found["retries_lately"] == found["tries_lately"]
    return found["calls_lately"], found["tries_lately"]


def test_what_a_minute_gained_is_told_and_older_gains_are_not():
    lately = Lately()
    assert told(lately, 0, 100, 110) == (0, 0)
    assert told(lately, 30, 110, 125) == (10, 15)
    assert told(lately, 61, 112, 128) == (2, 3)
    assert told(lately, 61, 5, 5, owner="b") == (0, 0)


def test_a_worker_that_is_gone_is_forgotten():
    lately = Lately()
    told(lately, 0, 100, 110)
    lately.keep_only({"b"})
    assert told(lately, 1, 200, 210) == (0, 0)
