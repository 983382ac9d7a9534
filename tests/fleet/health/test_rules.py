"""What an engine's signs mean, look by look."""

from datetime import UTC, datetime, timedelta

import pytest

from control.fleet.health.rules import (
    Advance,
    Canary,
    Died,
    History,
    Hung,
    NeverLaunched,
    Returned,
    Signs,
    Stay,
    Unwell,
    WarmUp,
    Well,
    after_canary,
    judge,
    remember,
)
from control.states import ReplicaState
from engines.spec import EngineLoad, Phase

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
HANG_SECONDS = 60


def looks(state, signs, seconds, history=None):
    """One look a second with signs(second); the verdicts, and what is remembered."""
    history, verdicts = history or History(), []
    for second in range(seconds):
        at = AT + timedelta(seconds=second)
        history = remember(history, signs(second), at)
        verdicts.append(judge(state, signs(second), history, at, HANG_SECONDS))
    return verdicts, history


def a_load(running=0, tokens=0):
    return EngineLoad(running=running, generation_tokens=tokens)


def first(verdicts, kind):
    return next((n for n, verdict in enumerate(verdicts) if isinstance(verdict, kind)), None)


def test_e02_busy_without_a_token_is_ejected_then_replaced():
    def frozen(_):
        return Signs(alive=True, answers=True, load=a_load(running=2, tokens=7))

    verdicts, _ = looks(ReplicaState.READY, frozen, 70)
    assert first(verdicts, Unwell) == HANG_SECONDS
    verdicts, _ = looks(ReplicaState.UNHEALTHY, frozen, 130)
    assert first(verdicts, Hung) == 2 * HANG_SECONDS


def test_e02_slow_probes_of_an_engine_that_moves_are_only_a_hint():
    def slow(second):
        return Signs(alive=True, answers=False, load=a_load(running=1, tokens=second))

    verdicts, _ = looks(ReplicaState.READY, slow, 600)
    assert set(map(type, verdicts)) == {Stay}


def test_three_bad_probes_without_movement_eject_and_a_minute_of_them_replaces():
    def silent(_):
        return Signs(alive=True, answers=False)

    verdicts, _ = looks(ReplicaState.READY, silent, 10)
    assert first(verdicts, Unwell) == 2
    verdicts, _ = looks(ReplicaState.UNHEALTHY, silent, 70)
    assert first(verdicts, Hung) == HANG_SECONDS


def test_two_good_probes_bring_it_back():
    def well(_):
        return Signs(alive=True, answers=True, load=a_load())

    verdicts, _ = looks(ReplicaState.UNHEALTHY, well, 3)
    assert [type(verdict) for verdict in verdicts] == [Stay, Well, Well]


def test_e02_an_idle_engine_is_asked_for_a_token_and_replaced_if_it_never_comes():
    def idle(_):
        return Signs(alive=True, answers=True, load=a_load(tokens=5))

    verdicts, history = looks(ReplicaState.READY, idle, 40)
    assert first(verdicts, Canary) == 30
    history = after_canary(history, good=False, at=AT)
    [ejected], history = looks(ReplicaState.READY, idle, 1, history)
    assert isinstance(ejected, Unwell)
    verdicts, history = looks(ReplicaState.UNHEALTHY, idle, 3, history)
    assert isinstance(verdicts[-1], Canary)
    history = after_canary(history, good=False, at=AT)
    [replaced], _ = looks(ReplicaState.UNHEALTHY, idle, 1, history)
    assert isinstance(replaced, Hung)


def test_a_good_canary_is_forgotten():
    assert after_canary(History(canaries_failed=1), good=True, at=AT).canaries_failed == 0


@pytest.mark.parametrize(
    ("state", "phase", "answers", "verdict"),
    [
        ("starting", None, False, Stay()),
        ("starting", "starting", False, Stay()),
        ("starting", "loading", False, Advance(ReplicaState.LOADING)),
        ("starting", "warming", False, Advance(ReplicaState.WARMING)),
        ("starting", "ready", True, Advance(ReplicaState.WARMING)),
        ("loading", "starting", False, Stay()),
        ("loading", "warming", False, Advance(ReplicaState.WARMING)),
        ("warming", "warming", False, Stay()),
        ("warming", "ready", False, WarmUp()),
        ("warming", "warming", True, WarmUp()),
    ],
)
def test_a_start_goes_forward_only(state, phase, answers, verdict):
    signs = Signs(alive=True, phase=phase and Phase(phase, 50, ""), answers=answers)
    assert judge(ReplicaState(state), signs, History(), AT, HANG_SECONDS) == verdict


@pytest.mark.parametrize(
    ("state", "launched", "verdict"),
    [
        ("starting", True, Died()),
        ("starting", False, NeverLaunched()),
        ("loading", True, Died()),
        ("ready", True, Died()),
        ("unhealthy", True, Died()),
        ("lost", True, Died()),
    ],
)
def test_without_a_process_it_died_or_never_was(state, launched, verdict):
    signs = Signs(alive=False, launched=launched)
    assert judge(ReplicaState(state), signs, History(), AT, HANG_SECONDS) == verdict


def test_an_engine_that_outlived_its_nodes_absence_returns():
    signs = Signs(alive=True, answers=True)
    assert judge(ReplicaState.LOST, signs, History(), AT, HANG_SECONDS) == Returned(well=True)
