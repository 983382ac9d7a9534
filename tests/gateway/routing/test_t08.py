"""T08: an address outlives its replica, and another engine answers there."""

import pytest

from tests.gateway.place import Place, chat, replica
from tests.gateway.upstream import Upstream, answered


@pytest.mark.parametrize("used", [True, False], ids=["used before", "never used"])
async def test_t08_the_stranger_at_the_port_gets_no_request(tmp_path, used):
    ours, stranger = Upstream(answered("ours")), Upstream(answered("stranger"))
    stranger.served = "another model"
    async with Place(tmp_path) as place:
        port = await ours.start()
        place.know_replicas(replica(1, port, generation=1))
        if used:
            assert (await place.post(chat())).status == 200
        await ours.stop()
        await stranger.start(port)
        moved_to = await ours.start()  # the gateway is not told
        refused = await place.post(chat())
        assert (refused.status, refused.error["code"]) == (503, "server_is_overloaded")
        assert not stranger.seen
        assert stranger.probes == ["/v1/models"]
        assert place.shared.tally.counters["identity_mismatch_total"] == 1
        assert place.shared.replicas.ejected() == 1
        place.know_replicas(replica(1, moved_to, generation=2))
        answer = await place.post(chat())
        assert answer.json()["choices"][0]["message"]["content"] == "ours"
        assert not stranger.seen
        await ours.stop()
        await stranger.stop()


async def test_t08_while_the_stranger_stays_probes_do_not_take_it_back(tmp_path):
    stranger = Upstream(answered())
    stranger.served = "another model"
    async with Place(tmp_path) as place:
        place.know_replicas(replica(1, await stranger.start()))
        assert (await place.post(chat())).status == 503
        place.push(60)
        await place.until(lambda: "/health" in stranger.probes)
        await place.until(lambda: not place.shared.replicas._live[1].probing)
        assert place.shared.replicas.ejected() == 1
        assert not stranger.seen
        stranger.served = "chat"
        place.push(60)
        await place.until(lambda: place.shared.replicas.ejected() == 0)
        assert (await place.post(chat())).status == 200
        await stranger.stop()
