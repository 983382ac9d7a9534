"""After an engine ran out of memory: less of the cache, no call too large, and calls elsewhere."""

import pytest

from control.gateway import errors
from control.gateway.routing.guards import Guards
from control.gateway.routing.room import Room
from control.routes.cache_use import GUARDED_SHARE
from control.routes.snapshot import DeploymentInfo
from tests.gateway.place import chat, route, target
from tests.gateway.upstream import Script, answered, chunk

AT = 1_000.0


def a_guarded(name="d", *, since=AT - 10, until=AT + 590, tokens=1536):
    return DeploymentInfo(name, guarded_since=since, guarded_until=until, guard_tokens=tokens)


def guards(*deployments):
    known = Guards()
    known.know(deployments, AT)
    return known


@pytest.mark.parametrize(
    ("deployment", "tokens", "served", "admitted"),
    [
        (a_guarded(), 1536, 0, True),
        (a_guarded(), 1537, 0, False),
        (a_guarded(), 1900, 2000, True),  # one of that size has ended well since
        (a_guarded(), 2001, 2000, False),
        (a_guarded(until=AT - 1), 9999, 0, True),  # its time is over
        (DeploymentInfo("d"), 9999, 0, True),
    ],
)
def test_a_call_is_taken_up_to_the_largest_that_was_served_since(
    deployment, tokens, served, admitted
):
    known = guards(deployment)
    known.served("d", served)
    assert bool(known.open((target("d"),), tokens)) == admitted


def test_what_was_learned_stays_with_a_new_snapshot_but_not_with_a_new_failure():
    known = guards(a_guarded())
    known.served("d", 4000)
    known.know([a_guarded()], AT + 1)
    assert known.open((target("d"),), 4000)
    known.know([a_guarded(since=AT + 2)], AT + 3)
    assert not known.open((target("d"),), 4000)


def test_a_guard_ends_by_itself():
    known = guards(a_guarded(until=AT + 600))
    assert known.share("d") == GUARDED_SHARE
    assert not known.sweep(AT + 599)
    assert known.sweep(AT + 600)
    assert known.share("d") == 1.0
    assert not known.deployments


def test_too_large_a_call_is_refused_with_the_number_and_when_to_come_again():
    known = guards(a_guarded(tokens=1536))
    with pytest.raises(errors.Overloaded) as refused:
        known.judge(route("chat", target("d")), 2000, AT)
    assert "1536 tokens at most" in str(refused.value)
    assert refused.value.wait_seconds == 590


def test_it_is_not_refused_where_a_fallback_takes_it():
    with_fallback = route("chat", target("d"), fallback="large")
    assert guards(a_guarded(tokens=1536)).judge(with_fallback, 2000, AT) is None


def test_a_guarded_replica_lends_a_fifth_less_of_its_cache():
    room = Room(10_000)
    room.take(1, is_batch=False)
    fits = {"batch": 0.0, "slots": 1, "slots_in_all": 1}
    assert room.fits(8_999, **fits)
    room.cap(GUARDED_SHARE)
    assert not room.fits(7_200, **fits)
    assert room.fits(7_199, **fits)
    room.resize(20_000)  # what it holds may be told anew meanwhile
    assert not room.fits(14_400, **fits)
    room.cap(1.0)
    assert room.fits(17_999, **fits)


async def test_a_large_call_goes_to_the_larger_deployment_and_a_small_one_stays(place, engines):
    small = await engines(answered("small"))
    large = await engines(answered("large"), deployment="large")
    wall = place.time.wall()
    guard = a_guarded(since=wall, until=wall + 600, tokens=100)
    place.know(route("chat", target("d"), fallback="large"), deployments=[guard])
    assert (await place.post(chat(max_tokens=20))).status == 200
    assert (len(small.seen), len(large.seen)) == (1, 0)
    assert (await place.post(chat(max_tokens=500))).status == 200
    assert (len(small.seen), len(large.seen)) == (1, 1)


async def test_without_a_larger_deployment_it_is_refused_until_the_guard_ends(place, engines):
    engine = await engines(answered("fine"))
    wall = place.time.wall()
    guard = a_guarded(since=wall, until=wall + 600, tokens=100)
    place.know(route("chat", target("d")), deployments=[guard])
    refused = await place.post(chat(max_tokens=500))
    assert (refused.status, refused.error["code"]) == (503, "server_is_overloaded")
    assert not engine.seen
    place.know(route("chat", target("d")))
    assert (await place.post(chat(max_tokens=500))).status == 200


@pytest.mark.parametrize("told", [b"", chunk(role=True)], ids=["nothing", "a role alone"])
async def test_a_call_without_a_first_token_runs_elsewhere_when_its_engine_dies(
    place, engines, told
):
    """Out of memory: the engine's socket is reset, and the tenant has been told nothing."""
    dead = await engines(Script(told, end="rst"))
    await engines(answered("fine"))
    fine = place.shared.replicas._live[2]
    fine.in_flight += 1  # so that the other is asked first, and not by chance
    assert (await place.post(chat())).status == 200
    fine.in_flight -= 1
    assert len(dead.seen) == 1
    answers = [await place.post(chat()) for _ in range(8)]
    assert {answer.status for answer in answers} == {200}
