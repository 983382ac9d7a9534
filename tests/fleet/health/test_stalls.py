"""What is no stall: a long prefill, a moving engine however slow; and what a start grows by."""

import pytest

from control.fleet.health.rules import (
    GROWTH_BYTES,
    History,
    Hung,
    Signs,
    Stay,
    Unwell,
    remember,
    still_seconds_min,
)
from control.states import ReplicaState
from engines.spec import EngineLoad
from tests.fleet.health.test_rules import AT, HANG_SECONDS, first, looks

CONTEXT = 100_000


def busy(**fields):
    return Signs(
        alive=True, answers=True, load=EngineLoad(running=1, **fields), context_tokens=CONTEXT
    )


def measured(tokens_a_second):
    """It has read a prompt of a thousand tokens at this pace."""
    seconds = 1000 / tokens_a_second
    before = remember(History(), busy(), AT)
    return remember(before, busy(prompt_tokens=1000, ttft_seconds_sum=seconds), AT)


@pytest.mark.parametrize("mark", ["generation_tokens", "iterations", "prompt_tokens"])
def test_e02_any_counter_that_moves_is_life(mark):
    verdicts, _ = looks(ReplicaState.READY, lambda second: busy(**{mark: second // 20}), 300)
    assert set(map(type, verdicts)) == {Stay}


def test_cache_that_fills_is_life():
    def fills(second):
        return busy(kv_cache_ratio=second / 1000)

    verdicts, _ = looks(ReplicaState.READY, fills, 300)
    assert set(map(type, verdicts)) == {Stay}


@pytest.mark.parametrize(
    ("tokens_a_second", "seconds"),
    [
        (10_000, HANG_SECONDS),  # 3 x 10 s: never less than the limit
        (1_000, 300),  # 3 x 100 s
        (10, 1800),  # 3 x 10,000 s: never more than half an hour
    ],
)
def test_b5_nothing_moves_for_three_times_the_longest_prefill(tokens_a_second, seconds):
    history = measured(tokens_a_second)
    assert still_seconds_min(busy(), history, HANG_SECONDS) == seconds
    frozen = busy(prompt_tokens=1000, ttft_seconds_sum=1000 / tokens_a_second)
    verdicts, _ = looks(ReplicaState.READY, lambda _: frozen, seconds + 2, history)
    assert first(verdicts, Unwell) == seconds
    verdicts, _ = looks(ReplicaState.UNHEALTHY, lambda _: frozen, 2 * seconds + 2, history)
    assert first(verdicts, Hung) == 2 * seconds


def test_what_came_from_the_prefix_cache_was_not_read():
    history = remember(History(), busy(), AT)
    told = busy(prompt_tokens=1000, cached_prompt_tokens=900, ttft_seconds_sum=1.0)
    assert remember(history, told, AT).prefill_rate == 100


def test_e03_memory_that_grows_is_progress_and_its_noise_is_none():
    history = History()
    for second, grown in enumerate([1, 1.5, 1.9, 2.1, 2.1, 3.2]):
        signs = Signs(alive=True, memory_bytes=int(grown * GROWTH_BYTES))
        history = remember(history, signs, second)
        assert (history.grew_at == second) == (second in (0, 3, 5))
