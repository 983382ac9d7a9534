"""When an incident opens, is gone, comes back and ends; what its URL reads."""

import json
from datetime import timedelta

import pytest

from control.fleet.incidents import rules
from control.fleet.incidents.rules import GONE_FOR, Changes, Open, Seen, Told
from tests.placement.world import AT

LOST = Seen("node lost", "n1", "n1", "no heartbeat for 60 s", is_urgent=True)


def known(gone_at=None):
    return Open(7, "node lost", "n1", gone_at)


@pytest.mark.parametrize(
    ("seen", "were", "changes"),
    [
        ([], [], Changes((), (), (), ())),
        ([LOST], [], Changes((LOST,), (), (), ())),
        ([LOST, LOST], [], Changes((LOST,), (), (), ())),
        ([LOST], [known()], Changes((), (), (), ())),
        ([], [known()], Changes((), (7,), (), ())),
        ([], [known(AT - GONE_FOR / 2)], Changes((), (), (), ())),
        ([LOST], [known(AT - GONE_FOR / 2)], Changes((), (), (7,), ())),
        ([LOST], [known(AT - GONE_FOR)], Changes((), (), (7,), ())),  # it was not over
        ([], [known(AT - GONE_FOR)], Changes((), (), (), (7,))),
    ],
)
def test_an_incident_opens_once_and_ends_when_it_stays_away(seen, were, changes):
    assert rules.changes(seen, were, AT) == changes


@pytest.mark.parametrize(("event", "says"), [("opened", ""), ("ended", " is over")])
def test_what_the_url_reads(event, says):
    ended = AT + timedelta(minutes=9) if event == "ended" else None
    told = Told(7, event, AT, "node lost", "n1", "it is silent", True, AT, ended)
    read = json.loads(rules.message(told))
    assert (read["type"], read["id"]) == (f"incident.{event}", f"incident_7_{event}")
    assert read["data"]["text"] == f"n1: node lost{says}. it is silent"
    assert bool(read["data"]["ended_at"]) == (event == "ended")
