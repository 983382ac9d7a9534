"""Limits of each end user, each client address and each identical call."""

import asyncio

import pytest

from control.gateway.admission.personal import Personal, personal_scopes
from control.gateway.admission.rules import Hold, Rate, Slots
from control.gateway.bodies.wire import parse
from control.gateway.http1.heads import Head
from control.gateway.http1.request import Request
from control.routes.snapshot import Scope
from tests.gateway.place import chat, identity, route

SECRET = "s" * 80
HOLD = Hold((Slots("t:1", "concurrent_calls", 9),), 5, 7)


def request(address: str = "10.0.0.1") -> Request:
    made = Request("req_1", 0.0, address, Head())
    made.identity = identity()
    return made


def ask(body: bytes):
    return parse("chat.completions", body, depth_max=9)


def checks(limits: dict[str, int], body: bytes = b"", address: str = "10.0.0.1", scope="t:1"):
    body = body or b'{"model":"chat","messages":[{"role":"user","content":"x"}],"user":"ann"}'
    scopes = (Scope(scope, limits),)
    return Personal(SECRET).narrowed(HOLD, scopes, request(address), ask(body)).checks[1:]


def test_no_scope_names_one_usually():
    assert personal_scopes([Scope("t:1", {"requests_per_minute": 5}), Scope("k:9", {})]) == ()
    named = Scope("p:4", {"identical_calls": 2})
    assert personal_scopes([Scope("t:1", {}), named]) == (named,)


def test_a_users_limits_are_the_scopes_and_its_name_is_not_kept():
    requests, tokens = checks(
        {"end_user_requests_per_minute": 6, "end_user_output_tokens_per_minute": 600}
    )
    assert (requests.limit, requests.units) == ("end_user_requests_per_minute", 6)
    assert HOLD.units(tokens) == 7
    assert requests.scope == tokens.scope
    assert requests.scope.startswith("u:t:1:")
    assert "ann" not in requests.scope
    other = Personal("another").narrowed(
        HOLD,
        (Scope("t:1", {"end_user_requests_per_minute": 6}),),
        request(),
        ask(b'{"model":"chat","messages":[{"role":"user","content":"x"}],"user":"ann"}'),
    )
    assert other.checks[1].scope != requests.scope


def test_who_names_no_user_has_no_users_limits():
    body = b'{"model":"chat","messages":[{"role":"user","content":"x"}]}'
    assert checks({"end_user_requests_per_minute": 6}, body) == ()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::2", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
    ],
)
def test_an_address_is_counted_as_a_network(one, other, same):
    limits = {"address_requests_per_minute": 6}
    [first], [second] = checks(limits, address=one), checks(limits, address=other)
    assert isinstance(first, Rate)
    assert (first == second) == same
    assert "10.0" not in first.scope


@pytest.mark.parametrize(
    ("body", "same"),
    [
        (b'{ "messages":[{"content":"x","role":"user"}], "model":"chat"}', True),
        (b'{"model":"chat","messages":[{"role":"user","content":"x "}]}', False),
        (b'{"model":"chat","messages":[{"role":"user","content":"x"}],"max_tokens":5}', False),
        (b'{"model":"chat","messages":[{"role":"user","content":"x"}],"temperature":0}', False),
    ],
)
def test_calls_are_identical_by_what_was_judged(body, same):
    limits = {"identical_calls": 2}
    [first] = checks(limits, b'{"model":"chat","messages":[{"role":"user","content":"x"}]}')
    [second] = checks(limits, body)
    assert first[1:] == ("identical_calls", 2)
    assert (first == second) == same


async def test_one_end_user_is_refused_and_others_are_served(gateways, engine, valkey):
    for place in gateways:
        place.know(route(), scopes={"t:1": {"end_user_requests_per_minute": 2}})
    answers = [await gateways[n % 2].post(chat(user="ann")) for n in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    assert "for 'chat' in one end user of tenant 'acme'" in answers[2].error["message"]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30
    assert (await gateways[0].post(chat(user="bob"))).status == 200
    assert (await gateways[0].post(chat())).status == 200
    assert not [key for key in valkey.scan_iter() if "ann" in key]


async def test_one_end_users_output_is_settled_by_what_came(gateways, engine, valkey):
    for place in gateways:
        place.know(route(), scopes={"p:4": {"end_user_output_tokens_per_minute": 90}})
    answer = await gateways[0].post(chat(user="ann", max_tokens=80))
    assert answer.status == 200
    await gateways[0].until(lambda: not gateways[0].shared.calls)
    refused = await gateways[0].post(chat(user="ann", max_tokens=90))
    assert refused.error["type"] == "tokens"
    assert (await gateways[0].post(chat(user="ann", max_tokens=75))).status == 200


async def test_the_tightest_limit_is_named(gateways, engine):
    limits = {"requests_per_minute": 1, "address_requests_per_minute": 1}
    for place in gateways:
        place.know(route(), scopes={"t:1": limits, "k:9": {"end_user_requests_per_minute": 60}})
    await gateways[0].post(chat(user="ann"))
    refused = await gateways[1].post(chat(user="ann"))
    assert "in tenant 'acme' on requests per min" in refused.error["message"]


async def test_identical_calls_in_flight_are_capped_for_all_gateways(gateways, engine):
    for place in gateways:
        place.know(route(), scopes={"k:9": {"identical_calls": 2}})
    engine.scripts[0].hold = hold = asyncio.Event()
    two = [asyncio.create_task(place.post(chat())) for place in gateways]
    await gateways[0].until(lambda: len(engine.seen) == 2)
    third = await gateways[0].post(chat())
    assert (third.status, third.error["code"]) == (429, "concurrency_limit_exceeded")
    assert "on identical calls at once: Limit 2" in third.error["message"]
    other = asyncio.create_task(gateways[0].post(chat("something else")))
    await gateways[0].until(lambda: len(engine.seen) == 3)
    hold.set()
    assert [answer.status for answer in await asyncio.gather(*two, other)] == [200] * 3
    await gateways[1].until(lambda: not any(place.shared.calls for place in gateways))
    assert (await gateways[1].post(chat())).status == 200
