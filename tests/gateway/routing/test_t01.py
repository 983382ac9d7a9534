"""T01: the notice that a replica is gone was lost; others are stopping, or still loading."""

from tests.gateway.place import Place, chat, replica
from tests.gateway.upstream import Upstream, answered, error


async def test_t01_a_killed_one_whose_notice_was_lost(tmp_path):
    engines = [Upstream(answered()) for _ in range(3)]
    async with Place(tmp_path) as place:
        infos = [replica(n, await engine.start()) for n, engine in enumerate(engines, 1)]
        place.know_replicas(*infos)
        for _ in range(9):
            assert (await place.post(chat())).status == 200
        await engines[0].stop()
        answers = [await place.post(chat()) for _ in range(30)]
        assert {answer.status for answer in answers} == {200}  # no client error
        assert sum(closed.attempts - 1 for closed in place.closes()) <= 1  # failed tries
        # No time was pushed: it has left at its first failure, and not after 2 s.
        assert place.shared.replicas.ejected() == 1
        place.know_replicas(*infos[1:])  # what the next full list says
        assert place.shared.replicas.ejected() == 0
        for engine in engines[1:]:
            await engine.stop()


async def test_t01_draining_and_loading_ones_get_no_request(tmp_path):
    ready, draining, loading = Upstream(answered()), Upstream(answered()), Upstream(error(503))
    loading.health = 503
    loading.served = None
    async with Place(tmp_path) as place:
        place.know_replicas(
            replica(1, await ready.start()),
            replica(2, await draining.start(), state="draining"),
            replica(3, await loading.start(), state="loading"),
        )
        for _ in range(20):
            assert (await place.post(chat())).status == 200
        assert (len(ready.seen), draining.seen, loading.seen) == (20, [], [])
        for engine in (ready, draining, loading):
            await engine.stop()


async def test_t01_one_that_only_seems_ready_gets_no_call_either(tmp_path):
    """It takes connections and answers 503 to all that it is asked."""
    ready, loading = Upstream(answered()), Upstream(error(503))
    loading.served, loading.health = None, 503
    async with Place(tmp_path) as place:
        place.know_replicas(
            replica(1, await ready.start()),
            replica(2, await loading.start(), engine="vllm"),
        )
        answers = [await place.post(chat()) for _ in range(20)]
        assert {answer.status for answer in answers} == {200}
        assert not loading.seen
        assert loading.probes
        await ready.stop()
        await loading.stop()


async def test_t01_readiness_without_a_live_replica_is_red(tmp_path):
    engine = Upstream(answered())
    async with Place(tmp_path) as place:
        assert (await place.get("/ready")).status == 503
        place.know_replicas(replica(1, await engine.start()))
        assert (await place.get("/ready")).status == 200
        await engine.stop()
        assert (await place.post(chat())).status == 503
        red = await place.get("/ready")
        assert (red.status, red.json()["routes_ready"]) == (503, 0)
