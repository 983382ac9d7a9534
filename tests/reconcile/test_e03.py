"""E03: a slow start that moves is not killed, one that has stopped moving is. Second by second."""

from datetime import timedelta

import pytest

from control.fleet.health.rules import Advance, History, Signs, WarmUp, judge, remember
from control.reconcile.rules import plan
from control.reconcile.world import Fail, Policy, World
from control.states import ReplicaState
from engines.spec import Phase
from tests.reconcile.worlds import AT, GIB, a_deployment, a_node, a_replica

STALL_SECONDS = int(Policy().stall_seconds)
HANG_SECONDS = 60


def played(grows_until: int, seconds: int):
    """1 GiB more every ten seconds, until some second; then nothing moves: who ends it, and when.

    Its log says nothing new, its front does not answer: memory is all that tells.
    """
    history, progress_at = History(), AT
    for second in range(seconds):
        at = AT + timedelta(seconds=second)
        held = min(second, grows_until) // 10 * GIB
        signs = Signs(alive=True, phase=Phase("loading", 60, ""), memory_bytes=held)
        history = remember(history, signs, at)
        progress_at = at if history.grew_at == at else progress_at
        loading = a_replica("loading", state_at=AT, progress_at=progress_at)
        actions = plan(World(at, (a_deployment(1, loading),), (a_node(),)))
        if actions:
            return second, actions[0]
    return seconds, judge(ReplicaState.LOADING, signs, history, at, HANG_SECONDS)


def test_e03_twenty_minutes_of_slow_loading_are_not_cut_short():
    second, verdict = played(grows_until=1200, seconds=1200)
    assert second == 1200
    assert not isinstance(verdict, Advance | WarmUp)  # gateways have not heard of it
    up = Signs(alive=True, phase=Phase("ready", 100, ""), answers=True)
    at = AT + timedelta(seconds=1200)
    assert judge(ReplicaState.LOADING, up, History(), at, HANG_SECONDS) == Advance(
        ReplicaState.WARMING
    )
    assert judge(ReplicaState.WARMING, up, History(), at, HANG_SECONDS) == WarmUp()


@pytest.mark.parametrize("grows_until", [30, 300])
def test_e03_what_has_stopped_growing_fails_a_stall_after_its_last_progress(grows_until):
    second, action = played(grows_until, seconds=grows_until + STALL_SECONDS + 60)
    assert isinstance(action, Fail)
    assert action.cause == "stalled"
    assert second == grows_until + STALL_SECONDS + 1
