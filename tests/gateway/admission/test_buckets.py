"""What may be asked of a route and of a deployment: empty is refused before it is queued."""

import asyncio

import pytest

from control.gateway.admission.buckets import Buckets
from control.gateway.admission.rules import Hold, Refused, Used
from control.routes.snapshot import FORMAT, BucketInfo, DeploymentInfo, Routes
from tests.gateway.place import Place, Time, chat, replica, route, target
from tests.gateway.upstream import Upstream, answered

CHAT = route()


def known(bucket: BucketInfo | None, processes: int = 1, **deployments: BucketInfo) -> Buckets:
    time = Time()
    buckets = Buckets(processes=processes, clock=time.now)
    buckets.time = time
    infos = {name: DeploymentInfo(name, own) for name, own in deployments.items()}
    buckets.know(Routes(FORMAT, 1, {"chat": route(bucket=bucket)}, infos))
    return buckets


def entered(buckets: Buckets, hold: Hold, asked: int, at=CHAT) -> int:
    return sum(buckets.enter(at, hold) is None for _ in range(asked))


@pytest.mark.parametrize(
    ("bucket", "processes", "hold", "granted"),
    [
        (BucketInfo(calls_per_second=2), 1, Hold(()), 10),
        (BucketInfo(calls_per_second=2), 2, Hold(()), 5),
        (BucketInfo(calls_per_second=2, burst_seconds=1), 1, Hold(()), 2),
        (BucketInfo(calls_per_second=0.1), 1, Hold(()), 1),
        (BucketInfo(tokens_per_second=100), 1, Hold((), 60, 40), 5),
        (BucketInfo(tokens_per_second=100), 1, Hold((), 1000, 0), 1),  # when it is full
        (BucketInfo(calls_per_second=3, tokens_per_second=100), 1, Hold((), 60, 40), 5),
        (BucketInfo(), 1, Hold((), 60, 40), 30),
        (None, 1, Hold((), 60, 40), 30),
    ],
)
def test_a_route_takes_what_is_stated_at_once(bucket, processes, hold, granted):
    assert entered(known(bucket, processes), hold, 30) == granted


def test_a_route_that_was_refused_has_room_when_it_said_so():
    buckets = known(BucketInfo(calls_per_second=2))
    entered(buckets, Hold(()), 10)
    refused = buckets.enter(CHAT, Hold(()))
    assert isinstance(refused, Refused)
    assert 0 < refused.wait_seconds <= 0.5
    buckets.time.pushed_seconds += refused.wait_seconds
    assert buckets.enter(CHAT, Hold(())) is None


def test_tokens_are_settled_by_what_was_used():
    buckets = known(BucketInfo(tokens_per_second=100))
    hold = Hold((), 100, 400)
    assert entered(buckets, hold, 2) == 1
    buckets.settle(CHAT, hold, Used(100, 0))
    assert entered(buckets, Hold((), 100, 300), 2) == 1


def test_a_route_is_refused_only_if_no_deployment_of_it_has_room():
    two = route("chat", target("a"), target("b"))
    bucket = BucketInfo(calls_per_second=1, burst_seconds=1)
    buckets = known(None, a=bucket, b=bucket)
    buckets.charge("a", 1, 0)
    assert buckets.enter(two, Hold(())) is None
    assert [t.deployment for t in buckets.open(two.targets)] == ["b"]
    buckets.charge("b", 3, 0)  # owes no more than it holds
    refused = buckets.enter(two, Hold(()))
    assert refused.check.scope == "d:a"  # which has room first
    buckets.time.pushed_seconds += 2
    assert len(buckets.open(two.targets)) == 2


def test_what_engines_can_is_a_bucket_for_each_priority():
    buckets = known(None)
    batch, urgent = (frozenset({"d"}), "batch"), (frozenset({"d"}), "interactive")
    for _ in range(11):  # 10 s at a call a second, and the one that a slot waits for
        assert buckets.crowded(batch, 1.0, 10) is None
        buckets.queued(batch, 1.0)
    refused = buckets.crowded(batch, 1.0, 10)
    assert 0 < refused.wait_seconds <= 1
    assert buckets.crowded(urgent, 1.0, 10) is None
    buckets.time.pushed_seconds += refused.wait_seconds
    assert buckets.crowded(batch, 1.0, 10) is None
    buckets.sweep(buckets.time.now() + 100)
    assert buckets._capacities == {}


@pytest.fixture
async def place(tmp_path):
    async with Place(tmp_path) as place:
        yield place


@pytest.fixture
async def engine(place):
    engine = Upstream(answered("fine", 90, 10))
    place.know_replicas(replica(1, await engine.start(), slots=1))
    yield engine
    await engine.stop()


def states(place: Place, bucket: BucketInfo | None, **deployments: BucketInfo) -> None:
    infos = {name: DeploymentInfo(name, own) for name, own in deployments.items()}
    place.know(route(bucket=bucket))
    place.shared.buckets.know(Routes(FORMAT, 1, {"chat": route(bucket=bucket)}, infos))


@pytest.mark.parametrize("whose", ["route", "deployment"])
async def test_empty_means_slow_down_before_it_is_queued(place, engine, whose):
    bucket = BucketInfo(calls_per_second=0.5, burst_seconds=4)
    states(
        place,
        *([bucket] if whose == "route" else [None]),
        **{"d": bucket} if whose == "deployment" else {},
    )
    answers = [await place.post(chat()) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[2].error == {
        "message": answers[2].error["message"],
        "type": "rate_limit_error",
        "param": None,
        "code": "slow_down",
    }
    assert "More is asked of 'chat' than it can do" in answers[2].error["message"]
    assert answers[2].headers["retry-after"] in ("1", "2")
    assert len(engine.seen) == 2
    place.push(2)
    assert (await place.post(chat())).status == 200


async def test_what_a_tenants_own_limit_refuses_takes_nothing_from_the_route(place, engine):
    states(place, BucketInfo(calls_per_second=0.1, burst_seconds=20))
    place.know(
        route(bucket=BucketInfo(calls_per_second=0.1, burst_seconds=20)),
        scopes={"k:9": {"requests_per_minute": 1}},
    )
    codes = [(await place.post(chat())).status for _ in range(5)]
    assert codes == [200, 429, 429, 429, 429]
    place.know(route(bucket=BucketInfo(calls_per_second=0.1, burst_seconds=20)))
    assert (await place.post(chat())).status == 200


async def test_a_crowd_beyond_what_engines_can_is_refused_before_it_waits(place, engine):
    """A call takes about a second; a burst of 3 s may wait."""
    place.know(route(bucket=BucketInfo(burst_seconds=3)))
    for _ in range(5):
        place.shared.replicas.held(place.shared.replicas._live[1], 1.0)
    engine.scripts[0].hold = hold = asyncio.Event()
    calls = [asyncio.create_task(place.post(chat())) for _ in range(9)]
    await place.until(lambda: sum(call.done() for call in calls) == 4)
    hold.set()
    answers = await asyncio.gather(*calls)
    refused = [answer for answer in answers if answer.status == 429]
    assert len(refused) == 4
    assert {answer.error["code"] for answer in refused} == {"slow_down"}
    assert all(answer.headers["retry-after"] == "1" for answer in refused)
