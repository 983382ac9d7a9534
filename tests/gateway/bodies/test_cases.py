"""Cases of the field about hostile bodies, at the port: nothing of them reaches an engine."""

import json

import pytest

from tests.gateway.bodies.test_wire import H04_REFUSED, nested, raw_chat
from tests.gateway.place import chat, identity, route, target
from tests.gateway.upstream import answered

DEEP = "depth 100,000, unknown member"


async def test_h04_hostile_bodies_reach_no_engine_and_the_process_lives(place, engines):
    engine = await engines(answered())
    place.know(route("m", members=("x_more",)))
    for what, body in H04_REFUSED.items():
        refused = await place.post(body)
        assert (refused.status, refused.error["type"]) == (400, "invalid_request_error"), what
    fastest = min([(await place.post(H04_REFUSED[DEEP])).seconds for _ in range(5)])
    assert fastest < 0.5  # ten times what is borne
    deep = json.loads(json.dumps(nested(64)["tools"][0]["function"]["parameters"]))
    good = (
        raw_chat('"model":"m","user":"\\ud83d\\ude00"'),
        json.dumps(nested(64) | {"model": "m"}).encode(),
        json.dumps(chat(x_more=[[deep]]) | {"model": "m"}).encode(),
    )
    assert [(await place.post(body)).status for body in good] == [200] * 3
    assert len(engine.seen) == 3
    assert (await place.get("/health")).status == 200


TWICE = (
    '"model":"small","model":"big"',
    '"model":"big","model":"small"',
    '"model":"small","mod\\u0065l":"big"',
    '"model":"small","stream":false,"stream":true',
    '"model":"small","max_tokens":1,"max_tokens":9',
)


@pytest.mark.parametrize("members", TWICE)
async def test_k05_a_body_that_names_a_member_twice_reaches_no_engine(place, engines, members):
    engine = await engines(answered(), served_name="org/small-v2")
    place.identities = {digest: identity(routes=("small",)) for digest in place.identities}
    place.know(route("small", target()), route("big"))
    refused = await place.post(raw_chat(members))
    assert (refused.status, refused.error["type"]) == (400, "invalid_request_error")
    assert not engine.seen
    assert place.opens() == []


async def test_k05_a_key_calls_the_public_names_it_may_and_no_others(place, engines):
    engine = await engines(answered(), served_name="org/small-v2")
    place.identities = {d: identity(routes=("small",)) for d in place.identities}
    place.know(route("small", target()), route("big"))
    for model in ("big", "SMALL", " small", "org/small-v2", "nothing"):
        refused = await place.post(chat(model=model))
        assert (refused.status, refused.error["code"]) == (404, "model_not_found")
        assert refused.error["param"] == "model"
    assert (await place.post(chat(model="small"))).status == 200
    assert [seen.body["model"] for seen in engine.seen] == ["org/small-v2"]
    assert place.closes()[0].route == "small"
