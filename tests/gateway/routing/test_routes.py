"""A route's rules and policy decide where its calls go, from the request to the engine."""

from control.routes.snapshot import RuleInfo
from tests.gateway.place import chat, route, target
from tests.gateway.upstream import answered

LONG = "Be kind and answer shortly. " * 60


async def two(engines):
    return await engines(answered(), deployment="a"), await engines(answered(), deployment="b")


async def test_a_header_or_the_size_of_a_prompt_sends_a_call_elsewhere(place, engines):
    a, b = await two(engines)
    there = (target("b"),)
    rules = (
        RuleInfo(there, header=("x-team", "search")),
        RuleInfo(there, input_tokens_min=500),
    )
    place.know(route("chat", target("a"), rules=rules))
    await place.post(chat())
    await place.post(chat(), x_team="other")
    assert (len(a.seen), len(b.seen)) == (2, 0)
    await place.post(chat(), x_team="search")
    await place.post(chat(LONG))
    assert (len(a.seen), len(b.seen)) == (2, 2)


async def test_the_context_of_where_a_rule_sends_a_call_bounds_its_answer(place, engines):
    a, b = await two(engines)
    long = RuleInfo((target("b", context_tokens=32_768),), input_tokens_min=500)
    narrow = RuleInfo((target("b", context_tokens=512),), header=("x-team", "search"))
    own = target("a", context_tokens=4096)
    place.know(route("chat", own, rules=(long, narrow), output_tokens_default=8192))
    refused = await place.post(chat(max_tokens=5000))
    assert (refused.status, refused.error["code"]) == (400, "context_length_exceeded")
    assert "is 4096 tokens" in refused.error["message"]
    assert (await place.post(chat(LONG, max_tokens=5000))).status == 200
    assert b.seen[0].body["max_tokens"] == 5000
    assert (await place.post(chat(LONG))).status == 200
    assert b.seen[1].body["max_tokens"] == 8192
    refused = await place.post(chat(max_tokens=1000), x_team="search")
    assert "is 512 tokens" in refused.error["message"]
    assert (await place.post(chat())).status == 200
    assert a.seen[0].body["max_tokens"] == 4096


async def test_the_priority_that_a_call_has_decides_not_the_one_it_might_have(place, engines):
    a, b = await two(engines)
    rules = (RuleInfo((target("b"),), priorities=("batch",)),)
    place.know(route("chat", target("a"), rules=rules))
    await place.post(chat())
    await place.post(chat(service_tier="flex"))
    assert (len(a.seen), len(b.seen)) == (1, 1)


async def test_prompts_that_begin_alike_meet_in_one_cache(place, engines):
    place.know(route("chat", policy="prefix"))
    started = [await engines(answered()) for _ in range(4)]
    for group in range(8):
        system = {"role": "system", "content": f"{group}: {LONG}"}
        before = [len(engine.seen) for engine in started]
        for turn in range(3):
            messages = [system, {"role": "user", "content": f"question {turn}"}]
            assert (await place.post({"model": "chat", "messages": messages})).status == 200
        grown = [len(engine.seen) - n for engine, n in zip(started, before, strict=True)]
        assert sorted(grown) == [0, 0, 0, 3]
    assert sum(bool(engine.seen) for engine in started) > 1


async def test_round_robin_goes_round(place, engines):
    place.know(route("chat", policy="round_robin"))
    started = [await engines(answered()) for _ in range(3)]
    for _ in range(9):
        await place.post(chat())
    assert [len(engine.seen) for engine in started] == [3, 3, 3]


async def test_a_failed_call_keeps_what_was_decided_with_all_figures(place, engines):
    place.know(route("chat", sample=0.0))
    await engines(answered())
    bad = await engines(answered())
    await bad.stop()
    place.shared.replicas._live[1].in_flight += 1  # so that the bad one is asked first
    for _ in range(12):
        await place.post(chat())
    [closed] = [closed for closed in place.closes() if closed.attempts == 2]
    first, second = closed.trace.decisions
    assert (first["decision"], first["replica"]) == ("Chosen", 2)
    assert (second["decision"], second["replica"]) == ("Chosen", 1)
    for decision in (first, second):
        assert decision["why"]
        assert [figures["id"] for figures in decision["figures"]] == [1, 2]
        assert {"in_flight", "slots", "engine"} <= set(decision["figures"][0])
