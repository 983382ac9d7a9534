"""What is refused before it is a call leaves the same trace as a call that was refused."""

import msgspec
import pytest

from control.gateway.bodies.wire import parse
from control.gateway.routing.deaths import fingerprint
from control.gateway.routing.strikes import Death
from control.metering.records import Refused
from control.models.sealing import digest_of
from control.routes.snapshot import FORMAT, BudgetInfo, DeploymentInfo, Identities, Routes, Scope
from tests.gateway.place import KEY, Place, chat, identity, replica, route

PICTURE = {"type": "image_url", "image_url": {"url": "http://elsewhere.example/a.png"}}
CONTEXT = {"t:1": {"context_tokens": 100, "output_tokens": 50}}
LONG = "word " * 2000


def traced(place: Place) -> list[Refused]:
    return [one for one in place.records() if isinstance(one, Refused) and one.trace]


def limited(place: Place) -> None:
    place.know(route(media_hosts=(".example.org",)), scopes=CONTEXT)


def bound(place: Place) -> None:
    place.identities = {digest_of(KEY): identity(routes=("other",), endpoints=("embeddings",))}
    place.know(route())


def narrowed(place: Place) -> None:
    place.identities = {digest_of(KEY): identity(routes=("other",))}
    place.know(route())


def expired(place: Place) -> None:
    place.identities = {digest_of(KEY): identity(expires_at=1.0)}
    place.know(route())


def bound_to_a_network(place: Place) -> None:
    place.identities = {digest_of(KEY): identity(networks=("10.0.0.0/8",))}
    place.know(route())


def guarded(place: Place) -> None:
    at = place.time.wall()
    guard = DeploymentInfo("d", guarded_since=at, guarded_until=at + 600, guard_tokens=10)
    place.know(route(), deployments=[guard])


def deadly(place: Place) -> None:
    prompt = fingerprint(parse("chat.completions", msgspec.json.encode(chat()), depth_max=32))
    at = place.time.wall()
    for launch, host in (("1:1", "n1"), ("2:1", "n2")):
        place.shared.deaths.strikes.add(prompt, Death(launch, host, at - 60, at))


def unpriced(place: Place) -> None:
    budget = BudgetInfo(1, "money", "USD", "1 USD a month", "t:1")
    scopes = {"t:1": Scope("t:1", {}, (budget,))}
    keys = {digest_of(KEY): identity(scopes=("t:1",))}
    place.gateway.know(Identities(FORMAT, 1, keys, scopes), Routes(FORMAT, 1, {"chat": route()}))
    place.gateway.confirm(place.time.now())


REFUSED = [
    (None, {"model": "none"}, 404, {"decision": "NoRoute", "name": "none", "why": "unknown"}),
    (narrowed, {}, 404, {"decision": "NoRoute", "why": "this key may not call it"}),
    (bound, {}, 403, {"decision": "EndpointRefused", "allowed": ["embeddings"]}),
    (expired, {}, 401, {"decision": "KeyRefused", "why": "expired", "key_id": 9}),
    (bound_to_a_network, {}, 401, {"decision": "KeyRefused", "address": "127.0.0.1"}),
    (
        limited,
        {"messages": [{"role": "user", "content": [PICTURE]}]},
        400,
        {
            "decision": "HostNotAllowed",
            "host": "elsewhere.example",
            "allowed": [".example.org"],
        },
    ),
    (
        limited,
        {"messages": [{"role": "user", "content": LONG}]},
        400,
        {"decision": "TooLong", "answer_tokens": 1, "tokens_max": 100},
    ),
    (
        limited,
        {"max_tokens": 60},
        400,
        {"decision": "AnswerTooLong", "asked_tokens": 60, "tokens_max": 50},
    ),
    (guarded, {"max_tokens": 600}, 503, {"decision": "Guarded", "tokens_max": 10}),
    (deadly, {}, 400, {"decision": "Condemned", "launches": ["1:1", "2:1"]}),
    (unpriced, {}, 403, {"decision": "Unpriced", "currency": "USD"}),
    (
        None,
        {"surprise": "a secret"},
        400,
        {"decision": "Unfit", "code": "unknown_parameter", "param": "surprise"},
    ),
]


@pytest.mark.parametrize(("given", "changes", "status", "why"), REFUSED)
async def test_it_tells_why_with_the_figures_of_the_moment(tmp_path, given, changes, status, why):
    async with Place(tmp_path) as place:
        place.know_replicas(replica(1, 1))
        if given:
            given(place)
        answer = await place.post(chat() | changes)
        assert answer.status == status
        [one] = traced(place)
        assert one.call_id == answer.headers["x-request-id"]
        assert (one.status, one.code, one.count) == (status, one.trace.error, 0)
        assert one.trace.kept == "refused"
        assert one.trace.stages["settle"] >= 0
        assert one.started_at <= one.ended_at
        [told] = [it for it in one.trace.decisions if it["decision"] == why["decision"]]
        assert told.items() >= why.items()
        assert place.refusals() == {one.code: 1}
        assert KEY not in str(one)
        assert "a secret" not in str(one)


@pytest.mark.parametrize("given", [limited, unpriced])
async def test_who_could_have_served_it_is_told_where_the_route_is_known(tmp_path, given):
    async with Place(tmp_path) as place:
        place.know_replicas(replica(1, 1, slots=3))
        given(place)
        await place.post(chat(max_tokens=60))
        [one] = traced(place)
        assert one.route == "chat"
        [last] = [it for it in one.trace.decisions if it["decision"] == "Candidates"]
        assert [(it["id"], it["in_flight"], it["slots"]) for it in last["figures"]] == [(1, 0, 3)]


async def test_no_word_of_a_stranger_keeps_the_others_out_of_their_table(place):
    await place.post(chat(model="a\0b") | {})
    await place.post(chat() | {"c\0d": 1})
    assert "\0" not in str([one.trace for one in traced(place)])
    assert len(traced(place)) == 2


async def test_a_deadline_that_cannot_be_read_is_told_with_its_route(place):
    assert (await place.post(chat(), x_deadline_ms="soon")).status == 400
    [one] = traced(place)
    assert (one.route, one.trace.decisions[0]["param"]) == ("chat", "X-Deadline-Ms")


async def test_a_flood_leaves_few_and_hides_no_refused_call(place):
    place.know(route(cold_start_seconds=0))
    for _ in range(20):
        await place.post(chat(model="none"))
    await place.post(chat())
    kept = traced(place)
    seconds = {int(one.ended_at) for one in kept}
    bad = [one for one in kept if one.code == "model_not_found"]
    assert 1 <= len(bad) <= (len(seconds) + 1) * place.limits.refused_traces_per_second
    assert [one.code for one in kept if one not in bad] == ["model_loading"]
    assert place.refusals() == {"model_not_found": 20, "model_loading": 1}


async def test_strangers_leave_fewer_and_take_none_from_tenants(place):
    for _ in range(20):
        await place.post(chat(), key="weir-" + "x" * 40)
    await place.post(chat(model="none"))
    strange = [one for one in traced(place) if one.key_id is None]
    most = place.limits.stranger_traces_per_minute
    assert 1 <= len(strange) <= 2 * most  # a minute may end in between
    assert {one.code for one in traced(place)} == {"invalid_api_key", "model_not_found"}


async def test_what_is_no_call_is_counted_and_leaves_none(place):
    assert (await place.get("/v1/models/none")).status == 404
    assert (await place.get("/nothing")).status == 404
    assert not traced(place)
    assert place.refusals() == {"model_not_found": 1, "invalid_request": 1}


async def test_a_body_that_is_too_large_is_counted_and_told(tmp_path):
    async with Place(tmp_path, limits={"body_bytes": 1000}) as place:
        answer = await place.post(chat("x" * 2000))
        assert answer.status == 413
        [one] = traced(place)
        assert (one.tenant, one.trace.error) == ("acme", "request_too_large")
        assert place.refusals() == {"request_too_large": 1}


async def test_while_usage_cannot_be_stored_nothing_more_is_written(place):
    place.spool.has_room = False
    assert (await place.post(chat())).status == 503
    assert not traced(place)
    assert place.refusals() == {"usage_backlog_full": 1}
