"""Whose call it is: keys of both kinds, where they may come from, what they may call."""

import pytest

from control.gateway.known.identity import client_of, is_within
from tests.gateway.place import KEY, chat, identity, route
from tests.gateway.upstream import answered

PROXIES = ("10.0.0.0/24", "2001:db8::/64")


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("198.51.100.7", None, "198.51.100.7"),
        ("198.51.100.7", b"203.0.113.9", "198.51.100.7"),  # no proxy of ours says so
        ("10.0.0.2", None, "10.0.0.2"),
        ("10.0.0.2", b"203.0.113.9", "203.0.113.9"),
        ("10.0.0.2", b"127.0.0.1, 203.0.113.9", "203.0.113.9"),  # the first is the client's word
        ("10.0.0.2", b"203.0.113.9, 10.0.0.3", "203.0.113.9"),
        ("10.0.0.2", b"203.0.113.9:51000", "203.0.113.9"),
        ("10.0.0.2", b"[2001:db8:1::5]:443", "2001:db8:1::5"),
        ("2001:db8::9", b"2001:db8:1::5", "2001:db8:1::5"),
        ("10.0.0.2", b"203.0.113.9, unknown", "10.0.0.2"),
        ("10.0.0.2", b"10.0.0.4, 10.0.0.3", "10.0.0.4"),
        ("10.0.0.2", b"", "10.0.0.2"),
    ],
)
def test_the_client_is_the_last_address_that_is_no_proxy(peer, forwarded, client):
    assert client_of(peer, forwarded, PROXIES) == client


@pytest.mark.parametrize(
    ("address", "networks", "within"),
    [
        ("10.0.0.2", ("10.0.0.0/24",), True),
        ("10.0.1.2", ("10.0.0.0/24",), False),
        ("10.0.1.2", ("10.0.0.0/24", "10.0.1.2"), True),
        ("::ffff:10.0.0.2", ("10.0.0.0/24",), True),
        ("2001:db8::1", ("10.0.0.0/24",), False),
        ("nonsense", ("0.0.0.0/0",), False),
        ("10.0.0.2", ("nonsense",), False),
    ],
)
def test_an_address_is_within_named_networks(address, networks, within):
    assert is_within(address, networks) is within


async def test_a_key_is_good_from_its_networks_only(place, engines):
    await engines(answered())
    only(place, networks=("203.0.113.0/24",))
    refused = await place.post(chat(), x_forwarded_for="203.0.113.9")
    assert (refused.status, refused.error["code"]) == (401, "ip_not_authorized")
    assert KEY not in refused.body.decode()
    assert place.refusals() == {"ip_not_authorized": 1}
    only(place, networks=("127.0.0.0/8",))
    assert (await place.post(chat())).status == 200


@pytest.fixture
def proxied(place):
    object.__setattr__(place.limits, "trusted_proxies", ("127.0.0.0/8",))
    return place


async def test_a_proxy_that_is_named_is_believed(proxied, engines):
    await engines(answered())
    only(proxied, networks=("203.0.113.0/24",))
    assert (await proxied.post(chat(), x_forwarded_for="203.0.113.9")).status == 200
    for forwarded in ("198.51.100.7", "203.0.113.9, 198.51.100.7"):
        assert (await proxied.post(chat(), x_forwarded_for=forwarded)).status == 401


@pytest.mark.parametrize(
    ("endpoints", "path", "status"),
    [
        (None, "/v1/chat/completions", 200),
        (("chat.completions",), "/v1/chat/completions", 200),
        (("completions", "embeddings"), "/v1/chat/completions", 403),
        ((), "/v1/chat/completions", 403),
        (("messages",), "/v1/messages/count_tokens", 400),  # its body is wrong, not its key
        (("chat.completions",), "/v1/messages/count_tokens", 403),
    ],
)
async def test_a_key_may_be_bound_to_endpoints(place, engines, endpoints, path, status):
    await engines(answered())
    only(place, endpoints=endpoints)
    assert (await place.post(chat(surprise=1) if status == 400 else chat(), path)).status == status


async def test_models_are_an_endpoint_too(place):
    only(place, endpoints=("models",))
    assert (await place.get("/v1/models")).status == 200
    only(place, endpoints=("completions",))
    assert (await place.get("/v1/models")).status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer abcSECRET123"},
        {"authorization": "SECRET123"},
        {"authorization": "Basic SECRET123"},
        {"x-api-key": "SECRET123"},
        {"api-key": "SECRET123"},
    ],
)
async def test_k03_no_answer_repeats_a_key(place, headers):
    for path in ("/v1/models", "/v1/models?key=SECRET123", "/SECRET123/chat"):
        answer = await place.request("GET", path, headers=headers)
        assert answer.status in (401, 404)
        assert b"SECRET123" not in answer.body or path.startswith("/SECRET123")
        assert "SECRET123" not in str(answer.headers)


async def test_k03_a_key_with_a_line_break_is_no_header(place):
    head = b"GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer SECRET123\n\r\n\r\n"
    assert b"SECRET123" not in await _sent(place, head)


async def _sent(place, data: bytes) -> bytes:
    stream = place.stream({})
    stream._sent = data
    async with stream as raw:
        return await raw.until(b"\r\n\r\n")


def only(place, **changes) -> None:
    place.identities = {digest: identity(**changes) for digest in place.identities}
    place.know(route())
