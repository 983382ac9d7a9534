"""What shows that a page may have missed something of what was pushed."""

import pytest

from console.live.heard import FLOOD, PUBLISHERS_MAX, Heard


@pytest.mark.parametrize(
    ("came", "missed"),
    [
        ([], False),
        ([("a", 7)], False),  # it has begun to listen
        ([("a", 7), ("a", 8), ("b", 1), ("a", 9)], False),
        ([("a", 7), ("a", 9)], True),
        ([("a", 7), ("b", 9)], False),  # each counts by itself
        ([("a", 7), ("a", 7)], True),
        ([("a", n) for n in range(FLOOD)], False),
        ([("a", n) for n in range(FLOOD + 1)], True),
    ],
)
def test_a_gap_or_a_flood_of_one_publisher(came, missed):
    heard = Heard()
    for publisher, number in came:
        heard.note(publisher, number)
    assert heard.missed() is missed
    assert heard.missed() is False  # it is told once


def test_what_is_remembered_has_a_limit():
    heard = Heard()
    for number in range(3 * PUBLISHERS_MAX):
        heard.note(str(number), 1)
        heard.missed()
    assert len(heard._last) <= PUBLISHERS_MAX
