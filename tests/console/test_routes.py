"""A route's page says where its calls go and how they are treated."""

import pytest

from control.checks import Bucket
from control.routes import actions
from control.routes.wanted import ModerationWanted, RouteWanted, RuleWanted, TargetWanted
from tests.console.conftest import BY

NAME = "org/chat:small"


@pytest.fixture
def shown(console, fleet) -> str:
    for number in (1, 2):
        fleet(number)
    rule = RuleWanted(
        (TargetWanted("dep-2", 7),),
        tenants=("tenant-1",),
        priorities=("batch",),
        input_tokens_min=1024,
        hours=(22, 6),
        header=("x-team", "<search>"),
    )
    wanted = RouteWanted(
        NAME,
        (TargetWanted("dep-1"),),
        rules=(rule,),
        fallback="dep-2",
        policy="prefix",
        deadline_ms=1500,
        waiting_seconds=2.5,
        media_hosts=("images.example",),
        members=("min_tokens",),
        bucket=Bucket(calls_per_second=4),
        moderation=ModerationWanted("http://judge.example/"),
        sample=0.5,
    )
    actions.save_route(wanted, **BY)
    return console.get(f"/models/routes/{NAME}/").content.decode()


@pytest.mark.parametrize(
    "said",
    [
        "tenant-1",
        "batch",
        "1,024",
        "22:00",
        "6:00 UTC",
        "x-team: &lt;search&gt;",
        "weight 7",
        "all others",
        "that no target can serve",
        "prefix",
        "1,500 ms",
        "2.5 s",
        "images.example",
        "min_tokens",
        '4 <span class="soft">calls a second',
        "http://judge.example/",
        "50.0 %",
    ],
)
def test_a_route_shows_rules_fallback_policy_and_limits(shown, said):
    assert said in shown


def test_a_route_that_names_nothing_leaves_it_to_the_gateway(console, fleet):
    fleet(1)
    page = console.get("/models/routes/route-1/").content.decode()
    assert "load aware" in page
    assert "all others" not in page


def test_a_route_is_reached_from_the_lists(console, fleet):
    fleet(1)
    for page in ("/", "/models/"):
        assert "/models/routes/route-1/" in console.get(page).content.decode()


def test_a_route_that_is_not_there_is_404(console):
    assert console.get("/models/routes/none/").status_code == 404
