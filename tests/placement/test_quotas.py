"""What a project may hold at most, and what is kept for the others."""

import pytest

from control.placement.fleet import Fleet
from control.placement.rules import place
from control.placement.world import Placed, ProjectQuota, Unplaced
from tests.placement.cards import a_card, a_holder, a_need, a_node, held

WEB, LAB = 1, 2


def mine(replica_id, project):
    return a_holder(replica_id, 0, 80, project_id=project)


@pytest.mark.parametrize(
    ("name", "need", "devices", "quotas", "why"),
    [
        (
            "below the maximum",
            a_need(share="own", project_id=WEB),
            [held(1, mine(5, WEB)), a_card(2)],
            [ProjectQuota(WEB, "a/web", maximum=2)],
            "",
        ),
        (
            "at the maximum",
            a_need(share="own", project_id=WEB),
            [held(1, mine(5, WEB)), a_card(2)],
            [ProjectQuota(WEB, "a/web", maximum=1)],
            "project a/web holds 1 of 1 devices at most, and 1 more are needed",
        ),
        (
            "the last empty card is guaranteed to another",
            a_need(share="own", project_id=WEB),
            [a_card(1)],
            [ProjectQuota(LAB, "a/lab", guaranteed=1)],
            "project a/lab is guaranteed 1 more of the 1 empty devices",
        ),
        (
            "without a project no guarantee is touched either",
            a_need(share="own"),
            [a_card(1)],
            [ProjectQuota(LAB, "a/lab", guaranteed=1)],
            "project a/lab is guaranteed 1 more",
        ),
        (
            "one more than is guaranteed is left",
            a_need(share="own", project_id=WEB),
            [a_card(1), a_card(2)],
            [ProjectQuota(LAB, "a/lab", guaranteed=1)],
            "",
        ),
        (
            "a guarantee that is used up keeps nothing more",
            a_need(share="own", project_id=WEB),
            [held(1, mine(5, LAB)), a_card(2)],
            [ProjectQuota(LAB, "a/lab", guaranteed=1)],
            "",
        ),
        (
            "what is guaranteed is given, though others are guaranteed too",
            a_need(share="own", project_id=WEB),
            [a_card(1)],
            [ProjectQuota(WEB, "a/web", guaranteed=1), ProjectQuota(LAB, "a/lab", guaranteed=1)],
            "",
        ),
        (
            "a part of a card in use touches no guarantee",
            a_need(10, project_id=WEB),
            [held(1, a_holder(5, 0, 20)), a_card(2)],
            [ProjectQuota(LAB, "a/lab", guaranteed=1)],
            "",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_device_quotas(name, need, devices, quotas, why):
    result = place(need, Fleet([a_node(*devices)], quotas))
    assert isinstance(result, Unplaced if why else Placed)
    assert why in str(result)


def test_what_a_plan_gives_away_counts_at_once():
    need = a_need(share="own", project_id=WEB)
    fleet = Fleet([a_node(*map(a_card, range(3)))], [ProjectQuota(WEB, "a/web", maximum=2)])
    found = []
    for _ in range(3):
        result = place(need, fleet)
        found.append(type(result))
        if isinstance(result, Placed):
            fleet.reserve(result, need)
    assert found == [Placed, Placed, Unplaced]
