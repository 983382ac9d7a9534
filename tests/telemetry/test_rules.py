"""Counters become rates, restarts are seen, samples become points."""

import pytest

from control.telemetry.messages import (
    DeviceSample,
    GatewaySample,
    ReplicaSample,
    from_dict,
    to_dict,
)
from control.telemetry.rules import (
    Reading,
    point,
    replica_sample,
    restarted,
    window_start,
)
from engines.spec import EngineLoad


def a_load(**changes) -> EngineLoad:
    values = {
        "running": 2,
        "waiting": 1,
        "kv_cache_ratio": 0.5,
        "prompt_tokens": 1000,
        "generation_tokens": 500,
        "ttft_seconds_sum": 3.0,
        "ttft_count": 10,
        "tpot_seconds_sum": 5.0,
        "tpot_count": 500,
        "started_at_seconds": 100.0,
    }
    return EngineLoad(**values | changes)


def test_the_first_reading_has_gauges_and_no_rates():
    sample = replica_sample(7, "gemma#1", Reading(10.0, a_load()), None)
    assert sample == ReplicaSample(10.0, 7, "gemma#1", 2, 1, 0.5)


def test_rates_and_means_are_over_the_time_between_two_readings():
    later = a_load(
        prompt_tokens=1300,
        generation_tokens=560,
        ttft_seconds_sum=3.6,
        ttft_count=12,
        tpot_seconds_sum=5.9,
        tpot_count=560,
    )
    sample = replica_sample(7, "gemma#1", Reading(12.0, later), Reading(10.0, a_load()))
    assert (sample.prompt_tokens_per_second, sample.generation_tokens_per_second) == (150, 30)
    assert (sample.ttft_seconds, sample.tpot_seconds) == pytest.approx((0.3, 0.015))
    assert not sample.restarted


def test_an_idle_engine_has_rates_of_zero_and_no_latency():
    sample = replica_sample(7, "gemma#1", Reading(12.0, a_load()), Reading(10.0, a_load()))
    assert (sample.generation_tokens_per_second, sample.ttft_seconds) == (0, None)


@pytest.mark.parametrize(
    "now", [a_load(started_at_seconds=200.0), a_load(generation_tokens=3), a_load(ttft_count=0)]
)
def test_a_restart_is_seen_by_start_time_or_by_a_counter_that_went_back(now):
    assert restarted(now, a_load())


def test_after_a_restart_rates_count_from_zero():
    now = a_load(
        prompt_tokens=40,
        generation_tokens=20,
        ttft_count=1,
        ttft_seconds_sum=0.5,
        started_at_seconds=200.0,
    )
    sample = replica_sample(7, "gemma#1", Reading(12.0, now), Reading(10.0, a_load()))
    assert (sample.prompt_tokens_per_second, sample.ttft_seconds) == (20, 0.5)
    assert sample.restarted


@pytest.mark.parametrize(
    ("now", "busy_ratio"),
    [
        (a_load(), 1.0),  # running at both ends
        (a_load(running=0), 0.0),
        (a_load(running=0, ttft_seconds_sum=3.1, tpot_seconds_sum=5.4), 0.25),  # a short call
        (a_load(running=0, tpot_seconds_sum=90.0), 1.0),
    ],
)
def test_busy_is_the_time_with_a_running_call_also_a_short_one(now, busy_ratio):
    sample = replica_sample(7, "g#1", Reading(12.0, now), Reading(10.0, a_load()))
    assert sample.busy_ratio == pytest.approx(busy_ratio)


def test_a_clock_that_stands_still_gives_no_rates():
    sample = replica_sample(7, "g#1", Reading(10.0, a_load()), Reading(10.0, a_load()))
    assert sample.prompt_tokens_per_second is None


@pytest.mark.parametrize(
    "sample",
    [
        DeviceSample(1.0, "GPU-1", "n1/0 H200", "gpu", 100, 40, 0.5),
        ReplicaSample(1.0, 7, "gemma#1", 2, 1, 0.5, 10.0),
        GatewaySample(1.0, "host-1-0-5", 3, 4, 5, 6),
    ],
)
def test_samples_survive_the_wire(sample):
    assert from_dict(to_dict(sample)) == sample
    assert from_dict({**to_dict(sample), "of_a_newer_release": 1}) == sample


@pytest.mark.parametrize("values", [{}, {"subject": "star:1"}, {"subject": "replica:7"}])
def test_what_is_no_sample_is_none(values):
    assert from_dict(values) is None


def test_a_point_is_the_mean_and_of_peaks_the_maximum():
    samples = [
        {"running": 1, "ttft_seconds": None, "label": "x", "restarted": True, "at": 1.0},
        {"running": 4, "ttft_seconds": 0.5, "label": "x", "restarted": False, "at": 2.0},
    ]
    assert point(samples) == {
        "running": 2.5,
        "running_max": 4,
        "ttft_seconds": 0.5,
        "ttft_seconds_max": 0.5,
    }
    assert point([]) == {}


def test_windows_begin_at_whole_multiples():
    assert [window_start(at, 10) for at in (0.0, 9.99, 10.0, 119.0)] == [0, 0, 10, 110]
