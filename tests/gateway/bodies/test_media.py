"""Media: data: URLs, hosts that a route lists, and nothing else."""

import json

import pytest

from control.gateway import errors
from control.gateway.bodies import media, wire
from tests.gateway.place import chat, route
from tests.gateway.upstream import answered

EXE = {"data": "A", "format": "exe"}
DATA = "data:image/png;base64,AAAA"


def asked(*content: dict) -> dict:
    return {"model": "chat", "messages": [{"role": "user", "content": list(content)}]}


def image(url: str) -> dict:
    return {"type": "image_url", "image_url": {"url": url}}


def parse(*content: dict) -> wire.Ask:
    return wire.parse("chat.completions", json.dumps(asked(*content)).encode(), depth_max=64)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "what?"},
        image(DATA),
        {"type": "image_url", "image_url": {"url": DATA, "detail": "low"}},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}},
    ],
)
def test_parts_that_are_fine(part):
    assert parse(part).links == ()


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"type": "file", "file": {}}, "type"),
        ({"type": ["text"]}, "type"),
        ({"type": "text"}, "text"),
        ({"type": "image_url"}, "image_url"),
        ({"type": "image_url", "image_url": {}}, "image_url.url"),
        ({"type": "image_url", "image_url": {"url": DATA, "uuid": "x"}}, "image_url.uuid"),
        ({"type": "image_url", "image_url": {"url": DATA}, "uuid": "x"}, "uuid"),
        ({"type": "image_embeds", "image_embeds": "x"}, "type"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA"}}, "input_audio.format"),
        ({"type": "input_audio", "input_audio": EXE}, "input_audio.format"),
        (image("file:///etc/passwd"), "image_url.url"),
        (image("FILE:///etc/passwd"), "image_url.url"),
        (image("ftp://host/x"), "image_url.url"),
        (image("/etc/passwd"), "image_url.url"),
        (image("data:text/html,<p>"), "image_url.url"),
        (image("http://user:pass@host/x"), "image_url.url"),
        (image("http://good.example@evil.example/x"), "image_url.url"),
        (image("http://good.example\\@evil.example/x"), "image_url.url"),
        (image("http://[::1]/x"), "image_url.url"),
        (image("http://host/a b"), "image_url.url"),
        (image("http://host/a\nb"), "image_url.url"),
        (image("http://höst/"), "image_url.url"),
        (image("http://host#@evil.example/"), "image_url.url"),
        (image(" http://host/"), "image_url.url"),
        (image("http:host/x"), "image_url.url"),
    ],
)  # fmt: skip
def test_parts_that_are_refused_by_their_path(part, path):
    with pytest.raises(errors.Refusal) as raised:
        parse({"type": "text", "text": "x"}, part)
    assert (raised.value.status, raised.value.param) == (400, f"messages[0].content[1].{path}")


HOSTS = ("img.example", ".cdn.example", "192.0.2.7")


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://img.example/a.png", True),
        ("http://IMG.example:8080/a.png?b=c", True),
        ("https://img.example", True),
        ("https://a.cdn.example/x", True),
        ("https://a.b.cdn.example/x", True),
        ("https://cdn.example/x", False),
        ("https://evilcdn.example/x", False),
        ("https://img.example.evil.example/x", False),
        ("https://x.img.example/x", False),
        ("http://192.0.2.7/x", True),
        ("http://192.0.2.8/x", False),
        ("http://127.0.0.1/x", False),
        ("http://2130706433/x", False),
        ("http://0x7f.1/x", False),
        ("http://localhost/x", False),
        ("http://169.254.169.254/latest/meta-data", False),
    ],
)
def test_hosts_are_matched_whole_or_below_a_name(url, allowed):
    [link] = parse(image(url)).links
    assert link[0] == "messages[0].content[0].image_url.url"
    if allowed:
        media.judge((link,), HOSTS)
        return
    with pytest.raises(errors.InvalidValue) as raised:
        media.judge((link,), HOSTS)
    assert raised.value.param == link[0]
    with pytest.raises(errors.InvalidValue):
        media.judge((link,), ())


async def test_each_route_lists_its_own_hosts(place, engines):
    engine = await engines(answered())
    place.know(route(), route("seeing", media_hosts=HOSTS))
    body = asked(image("https://img.example/a.png"))
    refused = await place.post(body)
    assert (refused.status, refused.error["param"]) == (400, "messages[0].content[0].image_url.url")
    assert (await place.post(body | {"model": "seeing"})).status == 200
    assert len(engine.seen) == 1


async def test_h01_a_picture_of_8_5_mb_passes(place, engines):
    await engines(answered())
    url = "data:image/png;base64," + "A" * 8_500_000
    assert (await place.post(asked(image(url)))).status == 200


async def test_what_an_engine_gets_of_headers_and_salts(place, engines):
    engine = await engines(answered(), engine="vllm")
    more = {"x_vllm_priority": "-9", "x_data_parallel_rank": "1", "x_session_id": "s"}
    place.know(route(), route("shared", shared_prefix=True))
    for name in ("chat", "chat", "shared"):
        assert (await place.post(chat() | {"model": name}, **more)).status == 200
    salts = [seen.body["cache_salt"] for seen in engine.seen]
    assert salts[0] == salts[1] != salts[2]
    assert all(len(salt) == 32 for salt in salts)
    head = engine.seen[0].head.lower()
    names = {line.partition(":")[0] for line in head.split("\r\n")[1:] if line}
    assert names <= {
        *("host", "content-type", "accept-encoding", "x-request-id", "traceparent"),
        *("tracestate", "content-length", "authorization"),
    }
    assert "priority" not in engine.seen[0].body


async def test_engines_that_know_no_salt_get_none(place, engines):
    engine = await engines(answered())
    assert (await place.post(chat())).status == 200
    assert "cache_salt" not in engine.seen[0].body
