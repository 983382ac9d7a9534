"""A call that failed is tried again elsewhere: within limits, and then at the fallback."""

from control.management.local.ports import free_port
from tests.gateway.place import Place, chat, replica, route, target
from tests.gateway.upstream import Upstream, answered, error


async def test_a_call_that_an_engine_failed_is_answered_by_another(place, engines):
    bad = await engines(error(500))
    await engines(answered("fine"))
    place.shared.replicas._live[2].in_flight += 1  # so that the bad one is asked first
    answers = [await place.post(chat()) for _ in range(16)]
    assert {answer.status for answer in answers} == {200}
    assert bad.seen


async def test_retries_end_with_their_budget(tmp_path):
    bad, worse = Upstream(error(500)), Upstream(error(500))
    limits = {"retry_burst": 2, "retry_ratio": 0, "failures_in_a_row": 1000}
    async with Place(tmp_path, limits=limits) as place:
        place.know_replicas(replica(1, await bad.start()), replica(2, await worse.start()))
        for _ in range(6):
            assert (await place.post(chat())).status == 502
        assert len(bad.seen) + len(worse.seen) == 6 + 2
        await bad.stop()
        await worse.stop()


async def test_a_full_engine_is_left_for_one_that_does_not_queue(tmp_path):
    full, calm = Upstream(error(503, "The queue is full.")), Upstream(answered("fine"))
    async with Place(tmp_path, limits={"retry_burst": 16}) as place:  # each may meet it first
        place.know_replicas(replica(1, await full.start()), replica(2, await calm.start()))
        place.shared.replicas._live[2].in_flight += 1  # so that the full one is asked first
        for _ in range(16):
            assert (await place.post(chat())).status == 200
        assert full.seen
        assert len(calm.seen) == 16
        await full.stop()
        await calm.stop()


async def test_engines_that_are_all_full_are_not_asked_again_and_again(tmp_path):
    one, two = [Upstream(error(429, "Too many requests.")) for _ in range(2)]
    async with Place(tmp_path, limits={"busy_seconds": 600}) as place:
        place.know_replicas(replica(1, await one.start()), replica(2, await two.start()))
        refused = [await place.post(chat()) for _ in range(6)]
        assert {(answer.status, answer.error["code"]) for answer in refused} == {
            (503, "server_is_overloaded")
        }
        # Only the first call found an engine that had not yet said that it was full.
        assert len(one.seen) + len(two.seen) == 6 + 1
        await one.stop()
        await two.stop()


async def test_the_fallback_serves_when_no_target_can(place, engines):
    spare = await engines(answered("spare"), deployment="spare")
    place.know(route("chat", target("d"), fallback="spare"))
    assert (await place.post(chat())).status == 200
    place.know_replicas(spare.info, replica(9, free_port()))
    assert (await place.post(chat())).status == 200
    assert [closed.attempts for closed in place.closes()] == [1, 2]
    assert len(spare.seen) == 2


async def test_without_a_fallback_no_other_deployment_is_touched(place, engines):
    spare = await engines(answered("spare"), deployment="spare")
    place.know(route("chat", target("d"), cold_start_seconds=0))
    assert (await place.post(chat())).error["code"] == "model_loading"
    assert not spare.seen
