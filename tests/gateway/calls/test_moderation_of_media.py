"""A judge gets pictures and sounds as the engine does, and not more of them than it is rid of."""

import asyncio

import pytest

from control.routes.snapshot import ModerationInfo
from tests.gateway.place import Place, chat, replica, route
from tests.gateway.upstream import Script, Upstream, answered

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
SAID = {"type": "text", "text": "what is this?"}
CLEAN = Script(b'{"flagged":false}', content_type="application/json")


async def judged(place: Place, judge: Upstream, **rules) -> None:
    url = f"http://127.0.0.1:{judge.port}/"
    place.know(route(moderation=ModerationInfo(url, timeout_ms=60_000, **rules)))


def with_parts(*parts: dict) -> dict:
    return chat(messages=[{"role": "user", "content": [*parts]}, *chat("and?")["messages"]])


async def test_the_parts_of_a_prompt_reach_the_judge_as_they_reach_the_engine(place, engines):
    engine, judge = await engines(answered()), Upstream(CLEAN)
    await judge.start()
    await judged(place, judge)
    assert (await place.post(with_parts(SAID, PICTURE, SOUND))).status == 200
    asked = judge.seen[0].body
    assert asked["input"] == ["what is this?", "and?"]
    assert asked["parts"] == [PICTURE, SOUND]
    assert engine.seen[0].body["messages"][0]["content"] == [SAID, PICTURE, SOUND]
    assert (await place.post(chat("words alone"))).status == 200
    assert "parts" not in judge.seen[1].body
    await judge.stop()


async def test_a_picture_in_another_apis_words_is_judged_as_the_same_part(place, engines):
    await engines(answered())
    judge = Upstream(CLEAN)
    await judge.start()
    await judged(place, judge)
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "image", "source": source}, SAID]
    body = {"model": "chat", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
    assert (await place.post(body, "/v1/messages")).status == 200
    assert judge.seen[0].body["parts"] == [PICTURE]
    await judge.stop()


@pytest.mark.parametrize(("fail_open", "status"), [(True, 200), (False, 503)])
async def test_more_than_a_judge_is_rid_of_is_not_judged(tmp_path, fail_open, status):
    go_on = asyncio.Event()
    engine, judge = Upstream(answered()), Upstream(Script(**(vars(CLEAN) | {"hold": go_on})))
    await judge.start()
    async with Place(tmp_path, limits={"judge_bytes": 1000}) as place:
        place.know_replicas(replica(1, await engine.start()))
        await judged(place, judge, fail_open=fail_open)
        large = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 2000}}
        first = asyncio.create_task(place.post(with_parts(large)))  # one alone is let through
        await place.until(lambda: len(judge.seen) == 1)
        second = await place.post(with_parts(large))
        assert (second.status, len(judge.seen)) == (status, 1)
        go_on.set()
        assert (await first).status == 200
        assert (await place.post(with_parts(PICTURE))).status == 200
        assert len(judge.seen) == 2
        [judging] = place.shared.judges._by_address.values()
        assert judging._bytes == 0
    await judge.stop()
    await engine.stop()
