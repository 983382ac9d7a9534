"""T02: a model that exists but cannot be served now is not one that does not exist."""

import pytest

from control.management.local.ports import free_port
from tests.gateway.place import Answer, Place, chat, identity, replica, route

NOW = {"cold_start_seconds": 0}  # how long calls are held for a model that loads is another case


async def gateway(place: Place, *replicas) -> None:
    place.identities = {digest: identity(routes=("chat",)) for digest in place.identities}
    place.know(route("chat", **NOW), route("theirs", **NOW))
    place.know_replicas(*replicas)


def told(answer: Answer) -> tuple:
    """All that a client acts on."""
    error = answer.error  # asserts that it has message, type, param and code
    return answer.status, error["type"], error["code"], "retry-after" in answer.headers


@pytest.mark.parametrize("down", [False, True], ids=["no replica yet", "all replicas down"])
async def test_t02_two_gateways_agree_on_what_is_missing(tmp_path, down):
    replicas = [replica(1, free_port()), replica(2, free_port())] if down else []
    async with Place(tmp_path / "1") as one, Place(tmp_path / "2") as two:
        seen = []
        for place in (one, two):
            await gateway(place, *replicas)
            missing = await place.post(chat())
            unknown = await place.post(chat(model="nothing"))
            theirs = await place.post(chat(model="theirs"))
            code = "server_is_overloaded" if down else "model_loading"
            assert told(missing) == (503, "service_unavailable_error", code, True)
            assert 1 <= int(missing.headers["retry-after"]) <= 60
            assert told(unknown) == (404, "invalid_request_error", "model_not_found", False)
            # The same body, but for the name that was asked for.
            assert theirs.body == unknown.body.replace(b"nothing", b"theirs")
            seen.append([told(answer) for answer in (missing, unknown, theirs)])
        assert seen[0] == seen[1]
