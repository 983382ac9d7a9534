"""An engine that stands still is left; one that reads a long prompt is not."""

import pytest

from control.gateway.routing.stalls import Oldest, Progress
from control.telemetry.messages import ReplicaSample

STILL = {"running": 1, "kv_cache_ratio": 0.5}


def progress(*samples: dict, prefill_rate: float | None = 1000.0) -> Progress:
    """One a second, from second 0 on, after one in which prefill was measured."""
    made = Progress()
    made.note(
        ReplicaSample(replica_id=1, label="d#1", at=-1, prompt_tokens_per_second=prefill_rate), -1.0
    )
    for second, sample in enumerate(samples):
        made.note(ReplicaSample(replica_id=1, label="d#1", at=second, **sample), float(second))
    return made


@pytest.mark.parametrize(
    ("last", "still"),
    [
        ({}, True),
        ({"generation_tokens_per_second": 3.0}, False),
        ({"iterations_per_second": 1.0}, False),  # a chunk of a long prefill
        ({"kv_cache_ratio": 0.6}, False),
        ({"generation_tokens_per_second": 0.0, "iterations_per_second": 0.0}, True),
        ({"preemptions_per_second": 1.0}, True),
    ],
)
def test_what_counts_as_getting_on(last, still):
    seen = progress(*[STILL] * 12, STILL | last)
    assert seen.is_stalled(12.0, Oldest(60, 1000), 10) is still


@pytest.mark.parametrize(
    ("oldest", "stalled"),
    [
        (None, False),  # nobody waits for it
        (Oldest(9, 10), False),
        (Oldest(11, 10), True),
        (Oldest(11, 10_000), False),  # ten seconds of prefill: thrice that is borne
        (Oldest(29, 10_000), False),
        (Oldest(32, 10_000), True),
    ],
)
def test_a_long_prefill_is_not_a_stall(oldest, stalled):
    assert progress(*[STILL] * 12).is_stalled(11.0, oldest, 10) is stalled


def test_without_a_known_rate_the_least_time_stands_for_a_prefill():
    seen = progress(*[STILL] * 40, prefill_rate=None)
    assert not seen.is_stalled(39.0, Oldest(29, 10), 10)
    assert seen.is_stalled(39.0, Oldest(31, 10), 10)


def test_an_engine_that_says_nothing_is_not_called_stalled():
    assert not Progress().is_stalled(1000.0, Oldest(900, 10), 10)
