"""How far deployments have come: a bar on a terminal, a line per change elsewhere."""

import io

import pytest

from control.management.local import progress
from control.management.local.progress import Screen, Step, bar


def test_a_bar_shows_how_far_and_what_is_going_on():
    drawn = bar(Step("gemma", "loading", "loads weights", 50), 80, waited_seconds=41)
    assert drawn == "gemma  [############............]  50 %  41 s  loading: loads weights"


def test_a_bar_is_never_wider_than_the_terminal():
    assert len(bar(Step("gemma", "loading", "x" * 500, 120), 80)) == 79


def test_elsewhere_a_line_is_written_only_when_something_has_changed():
    out = io.StringIO()
    screen = Screen(out, 80)
    for percent in (0, 1, 9, 10, 11, 30):
        screen.show(Step("gemma", "preparing", "installs vllm", percent))
    assert out.getvalue().splitlines() == [
        "gemma        0 %  preparing: installs vllm",
        "gemma       10 %  preparing: installs vllm",
        "gemma       30 %  preparing: installs vllm",
    ]


@pytest.mark.parametrize(
    ("step", "waited_seconds", "hopeless"),
    [
        (Step("d", "preparing", "", 5), 10_000, False),
        (Step("d", "failed", "no wheel", 0, failed_launches=1), 0, False),
        (Step("d", "failed", "no wheel", 0, failed_launches=2), 0, True),
        (Step("d", "pending", "no device has 3 GiB", 0), 10, False),
        (Step("d", "pending", "no device has 3 GiB", 0), 100, True),
    ],
)
def test_when_waiting_is_hopeless(step, waited_seconds, hopeless):
    since = {}
    progress._is_hopeless(step, since, now_seconds=0)
    assert progress._is_hopeless(step, since, now_seconds=waited_seconds) is hopeless
