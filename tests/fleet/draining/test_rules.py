"""A draining engine is stopped when nobody sends it calls and none runs, or its time is over."""

from datetime import UTC, datetime, timedelta

import pytest

from control.fleet.draining.rules import Draining, GatewayFacts, Stop, Wait, judge

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


def ago(seconds):
    return AT - timedelta(seconds=seconds)


def draining(**changes):
    given = {
        "since": ago(4),
        "by": ago(-60),
        "unrouted_version": 7,
        "has_served": True,
        "is_alive": True,
        "engine_calls": 0,
    }
    return Draining(**(given | changes))


def gateway(version=7, silent=0.5, calls=0, owner="g1"):
    return GatewayFacts(owner, version, silent, calls)


STOP = [
    ("all gateways know, nothing runs", {}, [gateway(7), gateway(9, owner="g2")]),
    ("there is no gateway", {}, []),
    ("it never served", {"has_served": False, "engine_calls": None}, [gateway(1)]),
    ("its process is gone", {"is_alive": False, "engine_calls": None}, [gateway(1, calls=2)]),
    ("its time is over, whatever runs", {"by": ago(5)}, [gateway(1, calls=2)]),
    ("a silent gateway was waited for long enough", {"since": ago(11)}, [gateway(1, 8.0)]),
    ("a gateway is gone", {}, [gateway(1, 61.0)]),
    ("a dead gateway's calls died with it", {"since": ago(11)}, [gateway(7, 8.0, calls=3)]),
    ("nobody wrote down what to wait for", {"unrouted_version": None}, [gateway(1)]),
]
WAIT = [
    ("a live gateway has not heard", {}, [gateway(7), gateway(6, owner="g2")], "g2 may still"),
    ("it is waited for however long it takes", {"since": ago(50)}, [gateway(6)], "g1 may still"),
    ("a silent one is waited for a while", {}, [gateway(6, 8.0)], "g1 may still"),
    ("many have not heard", {}, [gateway(6, owner=f"g{n}") for n in range(5)], "and 2 more"),
    ("the engine runs calls", {"engine_calls": 1}, [gateway()], "its calls run"),
    ("a gateway's call is on its way to it", {}, [gateway(calls=1)], "its calls run"),
    ("the engine does not say", {"engine_calls": None}, [gateway()], "does not say"),
    ("it was unrouted this moment", {"since": ago(1)}, [], "just unrouted"),
    ("gateways have some seconds to move calls", {"by": ago(4), "engine_calls": 1}, [], "run"),
]


@pytest.mark.parametrize(
    ("changes", "gateways"), [row[1:] for row in STOP], ids=[r[0] for r in STOP]
)
def test_it_is_stopped_when(changes, gateways):
    assert isinstance(judge(draining(**changes), gateways, AT), Stop)


@pytest.mark.parametrize(
    ("changes", "gateways", "said"), [row[1:] for row in WAIT], ids=[r[0] for r in WAIT]
)
def test_it_is_waited_for_when(changes, gateways, said):
    found = judge(draining(**changes), gateways, AT)
    assert isinstance(found, Wait)
    assert said in found.reason
