"""Whether it is worth to wait for a model that is not there: a table."""

import pytest

from control.gateway.waiting.starts import InVain, in_vain, refusal_of
from control.routes.snapshot import DeploymentInfo
from control.states import Hindrance

AT = 1000.0
SOON = DeploymentInfo("soon", hindrance="back_off", cause="crashed", launch_after=AT + 40)
LATER = DeploymentInfo("later", hindrance="back_off", cause="killed", launch_after=AT + 90)
DUE = DeploymentInfo("due", hindrance="back_off", launch_after=AT - 5)
NEVER = DeploymentInfo("never", hindrance="given_up", cause="oom_at_start")
FULL = DeploymentInfo("full", hindrance="unplaced")
HINDERED = {one.name: one for one in (SOON, LATER, DUE, NEVER, FULL)}


@pytest.mark.parametrize(
    ("wanted", "limit_seconds", "found"),
    [
        (["fine"], 55, None),
        ([], 55, None),
        (["soon"], 55, None),
        (["soon"], 39, InVain(Hindrance.BACK_OFF, "crashed", 40)),
        (["due"], 1, None),
        (["never"], 55, InVain(Hindrance.GIVEN_UP, "oom_at_start", None)),
        (["full"], 55, InVain(Hindrance.UNPLACED, "", None)),
        (["never", "fine"], 55, None),
        (["never", "soon"], 55, None),
        (["never", "later", "soon"], 20, InVain(Hindrance.BACK_OFF, "crashed", 40)),
        (["never", "full"], 55, InVain(Hindrance.UNPLACED, "", None)),
    ],
)
def test_a_call_waits_in_vain_if_all_that_could_serve_it_are_hindered(wanted, limit_seconds, found):
    assert in_vain(wanted, HINDERED, AT, limit_seconds) == found


@pytest.mark.parametrize(
    ("vain", "says", "wait_seconds"),
    [
        (InVain(Hindrance.BACK_OFF, "crashed", 40), "failed to start (crashed)", 40),
        (InVain(Hindrance.BACK_OFF, "", 0.2), "is tried again in 0 s", 1),
        (InVain(Hindrance.GIVEN_UP, "oom_at_start", None), "(oom_at_start)", 30),
        (InVain(Hindrance.UNPLACED, "", None), "No machine has room", 30),
    ],
)
def test_the_refusal_says_why_and_when_to_come_again(vain, says, wait_seconds):
    refusal = refusal_of(vain, "chat", retry_seconds=30)
    assert says in str(refusal)
    assert "'chat'" in str(refusal)
    assert refusal.wait_seconds == wait_seconds
