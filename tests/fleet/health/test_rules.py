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


def a_load(running=0, tokens=0, failures=0):
    return EngineLoad(running=running, generation_tokens=tokens, failures=failures)


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


def test_e05_a_front_that_says_that_its_engine_is_dead_is_ejected_and_replaced_in_seconds():
    def dead(_):
        return Signs(alive=True, answers=False, says_dead=True, load=a_load(tokens=5))

    verdicts, history = looks(ReplicaState.READY, dead, 10)
    assert first(verdicts, Unwell) in range(3, 8)  # as soon as its counters have stood still
    verdicts, _ = looks(ReplicaState.UNHEALTHY, dead, 10)
    assert first(verdicts, Hung) in range(5, 8)

    def moves(second):
        return Signs(alive=True, answers=False, says_dead=True, load=a_load(1, tokens=second))

    assert set(map(type, looks(ReplicaState.READY, moves, 60)[0])) == {Stay}


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
    long_after = AT + timedelta(seconds=30)  # that took the second call to fail
    verdict = judge(ReplicaState.UNHEALTHY, idle(0), history, long_after, HANG_SECONDS)
    assert isinstance(verdict, Hung)


def lives(signs, canary_good, seconds):
    """It serves until it is replaced: when which verdict came, canaries answered at once."""
    state, history, told = ReplicaState.READY, History(), []
    for second in range(seconds):
        at = AT + timedelta(seconds=second)
        history = remember(history, signs(second), at)
        verdict = judge(state, signs(second), history, at, HANG_SECONDS)
        match verdict:
            case Canary():
                history = after_canary(history, canary_good(second), at)
            case Unwell():
                state = ReplicaState.UNHEALTHY
            case Well():
                state = ReplicaState.READY
        if not isinstance(verdict, Stay):
            told.append((second, type(verdict)))
        if isinstance(verdict, Hung):
            break
    return told


def test_e05_one_that_answers_5xx_to_all_calls_is_ejected_and_replaced_in_seconds():
    def fails_from_3_on(second):
        load = a_load(tokens=5, failures=max(0, second - 2))
        return Signs(alive=True, answers=True, load=load)

    told = lives(fails_from_3_on, lambda _: False, 20)
    assert told == [(3, Canary), (4, Unwell), (5, Canary), (6, Canary), (7, Hung)]


def test_e05_a_prompt_that_any_engine_answers_with_5xx_ends_none():
    def poisoned(second):
        # It comes each second; a canary is a call that goes well, so that its counters move.
        return Signs(alive=True, answers=True, load=a_load(tokens=asked[0], failures=second))

    asked = [1]

    def good(_):
        asked[0] += 1
        return True

    told = lives(poisoned, good, 60)
    assert {kind for _, kind in told} == {Canary}
    seconds = [second for second, _ in told]
    gaps = {later - one for one, later in zip(seconds, seconds[1:], strict=False)}
    assert min(gaps) >= 5  # each costs the engine a call


@pytest.mark.parametrize("busy", [True, False])
def test_e05_5xx_among_answers_that_get_on_say_nothing_of_the_engine(busy):
    def some_fail(second):
        load = a_load(running=int(busy), tokens=second, failures=second)
        return Signs(alive=True, answers=True, load=load)

    assert lives(some_fail, lambda _: False, 60) == []


def test_e05_one_bad_moment_ejects_and_does_not_replace():
    def failed_once(second):
        return Signs(alive=True, answers=True, load=a_load(tokens=5, failures=int(second > 2)))

    told = lives(failed_once, lambda second: second > 5, 20)
    assert told == [(3, Canary), (4, Unwell), (5, Canary), (6, Canary), (7, Well)]


def test_e05_a_counter_that_began_anew_or_is_read_first_is_no_failure():
    for readings in ([7, 7], [7, 0]):
        told = lives(
            lambda s, of=readings: Signs(
                alive=True, answers=True, load=a_load(tokens=5, failures=of[min(s, 1)])
            ),
            lambda _: False,
            20,
        )
        assert told == []


def test_a_good_canary_is_forgotten():
    failed = History(canaries_failed=1, failing_since=AT)
    assert after_canary(failed, good=True, at=AT) == History(asked_at=AT)


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


def test_one_that_sleeps_is_no_stall_and_its_end_is_noticed():
    def sleeps(_):
        return Signs(alive=True, answers=True, load=a_load(running=0, tokens=7))

    verdicts, _ = looks(ReplicaState.ASLEEP, sleeps, 10 * HANG_SECONDS)
    assert set(map(type, verdicts)) == {Stay}
    verdicts, _ = looks(ReplicaState.ASLEEP, lambda _: Signs(alive=True), 10 * HANG_SECONDS)
    assert set(map(type, verdicts)) == {Stay}
    gone, _ = looks(ReplicaState.ASLEEP, lambda _: Signs(alive=False), 1)
    assert gone == [Died()]
