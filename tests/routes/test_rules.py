"""What a route may ask for, member by member, and which field is told when it may not."""

import pytest

from control.checks import Bucket
from control.routes.rules import route_problems
from control.routes.wanted import ModerationWanted, RouteWanted, RuleWanted, TargetWanted

ONE = (TargetWanted("one"),)
JUDGE = "http://judge.example:9100/v1"


def told(**members) -> list[str]:
    return [problem.field for problem in route_problems(RouteWanted("chat", ONE, **members))]


def a_rule(targets=ONE, **conditions) -> tuple[RuleWanted, ...]:
    return (RuleWanted(targets, **conditions),)


@pytest.mark.parametrize(
    ("members", "fields"),
    [
        ({"fallback": "two"}, []),
        ({"fallback": "a b"}, ["fallback"]),
        ({"policy": "prefix"}, []),
        ({"policy": "random"}, ["policy"]),
        ({"on_replica_loss": "end"}, []),
        ({"on_replica_loss": "retry"}, ["on_replica_loss"]),
        ({"priority": "batch"}, []),
        ({"priority": "urgent"}, ["priority"]),
        ({"deadline_ms": 3_600_000}, []),
        ({"deadline_ms": 0}, ["deadline_ms"]),
        ({"waiting_seconds": 0}, []),
        ({"waiting_seconds": -1}, ["waiting_seconds"]),
        ({"cold_start_seconds": 3601}, ["cold_start_seconds"]),
        ({"commit_after_seconds": float("nan")}, ["commit_after_seconds"]),
        ({"media_hosts": ("images.example.com", "10.0.0.1")}, []),
        ({"media_hosts": ("https://a", "A.example", "a/b")}, [f"media_hosts[{n}]" for n in "012"]),
        ({"media_hosts": ("a",) * 65}, ["media_hosts"]),
        ({"members": ("min_tokens",)}, []),
        ({"members": ("Top-K", "a" * 65, "cache_salt")}, [f"members[{n}]" for n in "012"]),
        ({"members": ("a",) * 33}, ["members"]),
        ({"bucket": Bucket()}, []),
        ({"bucket": Bucket(0.5, 1000, 0.1)}, []),
        ({"bucket": Bucket(calls_per_second=0)}, ["bucket.calls_per_second"]),
        ({"bucket": Bucket(tokens_per_second=float("inf"))}, ["bucket.tokens_per_second"]),
        ({"bucket": Bucket(burst_seconds=0)}, ["bucket.burst_seconds"]),
        ({"moderation": ModerationWanted(JUDGE, after=True)}, []),
        ({"moderation": ModerationWanted("https://[::1]:8443/")}, []),
        ({"moderation": ModerationWanted("ftp://judge")}, ["moderation.url"]),
        ({"moderation": ModerationWanted("http:///path")}, ["moderation.url"]),
        ({"moderation": ModerationWanted("http://judge:99999")}, ["moderation.url"]),
        ({"moderation": ModerationWanted("http://judge/?key=1")}, ["moderation.url"]),
        ({"moderation": ModerationWanted("http://u:p@judge/")}, ["moderation.url"]),
        ({"moderation": ModerationWanted(JUDGE, timeout_ms=0)}, ["moderation.timeout_ms"]),
        ({"moderation": ModerationWanted(JUDGE, before=False)}, ["moderation"]),
        ({"sample": 1}, []),
        ({"sample": 1.5}, ["sample"]),
    ],
)
def test_a_member_of_a_route(members, fields):
    assert told(**members) == fields


@pytest.mark.parametrize(
    ("conditions", "fields"),
    [
        ({"tenants": ("acme",)}, []),
        ({"tenants": ("a b",)}, ["tenants[0]"]),
        ({"tenants": ("a",) * 201}, ["tenants"]),
        ({"priorities": ("batch", "standard")}, []),
        ({"priorities": ("low",)}, ["priorities[0]"]),
        ({"priorities": ("batch", "batch")}, ["priorities"]),
        ({"input_tokens_min": 0}, []),
        ({"input_tokens_min": 9, "input_tokens_max": 8}, ["input_tokens.max"]),
        ({"input_tokens_min": -1}, ["input_tokens.min"]),
        ({"hours": (22, 6)}, []),
        ({"hours": (0, 24)}, []),
        ({"hours": (24, 6)}, ["hours[0]"]),
        ({"hours": (0, 25)}, ["hours[1]"]),
        ({"hours": (6, 6)}, ["hours"]),
        ({"hours": (1, 2, 3)}, ["hours"]),
        ({"header": ("x-team", "search")}, []),
        ({"header": ("X-Team", "search")}, ["header.name"]),
        ({"header": ("authorization", "Bearer x")}, ["header.name"]),
        ({"header": ("x-team", "")}, ["header.value"]),
        ({"header": ("x-team", "a\nb")}, ["header.value"]),
        ({}, [""]),
    ],
)
def test_a_condition_of_a_rule(conditions, fields):
    places = [f"rules[0].{field}" if field else "rules[0]" for field in fields]
    assert told(rules=a_rule(**conditions)) == places


@pytest.mark.parametrize(
    ("targets", "fields"),
    [
        ((), ["rules[0].targets"]),
        ((TargetWanted("one", 0),), ["rules[0].targets"]),
        ((TargetWanted("one", 1001),), ["rules[0].targets[0].weight"]),
    ],
)
def test_the_targets_of_a_rule_are_judged_like_the_routes(targets, fields):
    assert told(rules=a_rule(targets, tenants=("acme",))) == fields


def test_rules_are_bounded():
    assert told(rules=a_rule(tenants=("acme",)) * 33) == ["rules"]
