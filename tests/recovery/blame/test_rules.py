"""Whose fault a death is, as a table."""

import pytest

from control.recovery.blame.rules import Card, Death, Quarantine, Spared, at_fault, judge

CARDS = [Card(1, "p"), Card(2, "p")]
XID = "Xid 79: the card has fallen off the bus"


def a_death(version, device):
    return Death(version, f"m:v{version}", device)


@pytest.mark.parametrize(
    ("deaths", "versions"),
    [
        ([], set()),
        ([a_death(1, 1), a_death(1, 1)], set()),
        ([a_death(1, 1), a_death(1, 2)], {1}),
        ([a_death(1, 1), a_death(2, 1)], set()),
    ],
)
def test_the_same_version_dying_on_two_devices_is_the_version(deaths, versions):
    assert set(at_fault(deaths)) == versions


@pytest.mark.parametrize(
    ("cards", "deaths", "verdicts"),
    [
        (CARDS, [], []),
        (CARDS, [a_death(1, 1), a_death(1, 1)], []),
        (CARDS, [a_death(1, 1), a_death(2, 1)], [Quarantine(1, "m:v1 and m:v2 died on it")]),
        # One of the two dies elsewhere too: that is its own fault, and says nothing of the card.
        (CARDS, [a_death(1, 1), a_death(1, 2), a_death(2, 1)], []),
        ([Card(1, "p", XID), Card(2, "p")], [], [Quarantine(1, XID)]),
        ([Card(1, "p", XID, quarantined=True), Card(2, "p")], [], []),
    ],
)
def test_two_versions_dying_on_one_device_or_its_driver_blame_the_device(cards, deaths, verdicts):
    assert judge(cards, deaths) == verdicts


@pytest.mark.parametrize(("count", "most"), [(1, 1), (8, 1), (19, 1), (20, 2), (100, 10)])
def test_no_more_than_a_tenth_of_a_pool_is_taken_away_and_one_at_least(count, most):
    verdicts = judge([Card(n, "p", XID) for n in range(1, count + 1)], [])
    assert sum(isinstance(it, Quarantine) for it in verdicts) == most
    spared = [it for it in verdicts if isinstance(it, Spared)]
    assert all(f"{most} of pool p are away" in it.reason for it in spared)


def test_pools_are_counted_apart_and_what_a_person_took_away_counts():
    cards = [Card(1, "a", XID), Card(2, "b", XID), Card(3, "b", quarantined=True)]
    assert [type(it) for it in judge(cards, [])] == [Quarantine, Spared]


def test_what_the_driver_told_goes_before_what_was_concluded():
    cards = [Card(1, "p"), Card(2, "p", XID)]
    deaths = [a_death(1, 1), a_death(2, 1)]
    assert judge(cards, deaths)[0] == Quarantine(2, XID)
