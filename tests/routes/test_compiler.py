"""Tables → what gateways know; and what they know reads across one release in both directions."""

from datetime import UTC, datetime

import msgspec
import pytest

from control.checks import Bucket
from control.fleet.actions import save_deployment
from control.fleet.rules import DeploymentWanted
from control.models import SnapshotPart
from control.routes import actions, snapshot
from control.routes.compiler import build, compile_part
from control.routes.snapshot import (
    FORMAT,
    BucketInfo,
    ModerationInfo,
    RouteInfo,
    RuleInfo,
    TargetInfo,
)
from control.routes.wanted import ModerationWanted, RouteWanted, RuleWanted, TargetWanted
from control.states import DeploymentState, Part
from control.tenancy.actions import save_tenant
from control.tenancy.rules import TenantWanted
from tests.fleet.rows import a_deployment, a_replica, a_version

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
WHO = {"by": "anna", "reason": "a test", "at": AT}
ONE = TargetWanted("one")
RULE = RuleWanted(
    (TargetWanted("two", 7),),
    tenants=("acme",),
    priorities=("batch",),
    input_tokens_min=1,
    input_tokens_max=2,
    hours=(22, 6),
    header=("x-team", "search"),
)
ALIKE = {  # the same words for what is wanted and for what gateways know
    "fallback": "two",
    "policy": "prefix",
    "on_replica_loss": "end",
    "priority": "standard",
    "deadline_ms": 1500,
    "waiting_seconds": 2.5,
    "cold_start_seconds": 30,
    "commit_after_seconds": 0.5,
    "progress": True,
    "shared_prefix": True,
    "media_hosts": ("a.example",),
    "members": ("min_tokens",),
    "sample": 0.5,
}
EVERYTHING = RouteWanted(
    "chat",
    (ONE,),
    rules=(RULE,),
    bucket=Bucket(calls_per_second=4),
    moderation=ModerationWanted("http://judge/", after=True),
    **ALIKE,
)


@pytest.fixture
def two(db):
    save_tenant(TenantWanted("acme"), **WHO)
    a_deployment("one", version=a_version(arguments={"max_model_len": 2048}))
    return a_deployment("two")


def test_every_member_that_is_wanted_reaches_the_gateways(two):
    route = actions.save_route(EVERYTHING, **WHO)
    assert compile_part(Part.ROUTES, 1).routes["chat"] == RouteInfo(
        name="chat",
        created_at=int(route.created_at.timestamp()),
        stop=(),
        output_tokens_default=None,
        output_tokens_max=None,
        targets=(TargetInfo("one", 100, 2048),),
        rules=(
            RuleInfo(
                (TargetInfo("two", 7, None),),
                tenants=("acme",),
                priorities=("batch",),
                input_tokens_min=1,
                input_tokens_max=2,
                hours=(22, 6),
                header=("x-team", "search"),
            ),
        ),
        bucket=BucketInfo(calls_per_second=4),
        moderation=ModerationInfo("http://judge/", after=True),
        **ALIKE,
    )


def test_a_route_that_names_nothing_has_the_gateways_own_defaults(two):
    route = actions.save_route(RouteWanted("chat", (ONE,)), **WHO)
    bare = RouteInfo("chat", int(route.created_at.timestamp()), (), None, None, ())
    compiled = compile_part(Part.ROUTES, 1).routes["chat"]
    assert msgspec.structs.replace(compiled, targets=()) == bare


def test_a_deployment_that_drains_leaves_targets_rules_and_fallback(two):
    actions.save_route(EVERYTHING, **WHO)
    two.state = DeploymentState.DRAINING
    two.save()
    compiled = compile_part(Part.ROUTES, 1)
    route = compiled.routes["chat"]
    assert (route.fallback, route.rules[0].targets) == (None, ())
    assert list(compiled.deployments) == ["one"]


def test_a_deployment_has_its_bucket(two):
    save_deployment(DeploymentWanted("two", "m-two", "v1", bucket=Bucket(2, 300, 1)), **WHO)
    compiled = compile_part(Part.ROUTES, 1).deployments
    assert compiled["two"].bucket == BucketInfo(2, 300, 1)
    assert compiled["one"].bucket is None


@pytest.mark.django_db
def test_a_replica_says_what_it_runs_and_how_much_its_cache_holds():
    deployment = a_deployment(version=a_version("gemma", "v2"))
    a_replica(deployment, at=AT, host="10.0.0.1", port=18000, kv_tokens=4096)
    [replica] = compile_part(Part.REPLICAS, 1).replicas
    said = (replica.engine, replica.model, replica.version, replica.kv_tokens)
    assert said == ("stub", "gemma", "v2", 4096)


OLD = {
    Part.IDENTITIES: b'{"format":1,"version":7,"keys":{"d1":{"key_id":9,"tenant_id":1,'
    b'"project_id":4,"tenant":"acme","project":"default","key":"ci","priority":"standard",'
    b'"scopes":["t:1"],"routes":null,"expires_at":null}},'
    b'"scopes":{"t:1":{"id":"t:1","limits":{"requests_per_minute":60}}}}',
    Part.ROUTES: b'{"format":1,"version":7,"routes":{"chat":{"name":"chat","created_at":1,'
    b'"stop":["x"],"output_tokens_default":null,"output_tokens_max":null,'
    b'"targets":[{"deployment":"one","weight":100,"context_tokens":null}]}}}',
    Part.REPLICAS: b'{"format":1,"version":7,"replicas":[{"id":1,"generation":1,'
    b'"deployment":"one","version_id":3,"host":"h","port":1,"path":"","tls":false,'
    b'"served_name":"m","slots":8,"state":"ready","sealed_key":""}]}',
}


@pytest.mark.parametrize("part", Part)
def test_what_the_release_before_compiled_is_still_understood(part):
    known = snapshot.decode(part, OLD[part])
    assert (known.format, known.version) == (FORMAT, 7)


def test_the_release_before_passes_over_what_it_does_not_know(two):
    """A gateway of then has structs without the members of now: they are left out here."""
    actions.save_route(EVERYTHING, **WHO)
    assert build(Part.ROUTES, at=AT)
    payload = bytes(SnapshotPart.objects.get(pk=Part.ROUTES).payload)
    fields = [("name", str), ("stop", tuple[str, ...]), ("targets", tuple[TargetInfo, ...])]
    then = msgspec.defstruct("RouteInfo", fields, frozen=True)
    routes = msgspec.defstruct("Routes", [("format", int), ("routes", dict[str, then])])
    known = msgspec.json.decode(payload, type=routes)
    assert known.format == FORMAT
    assert known.routes["chat"].targets == (TargetInfo("one", 100, 2048),)
