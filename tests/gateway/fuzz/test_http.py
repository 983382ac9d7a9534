"""What is served is what was judged: framing, with h11 as the second reader."""

import random
from pathlib import Path

import pytest

from tests.gateway.fuzz.driving import fed, judged

CORPUS = sorted((Path(__file__).parent / "corpus" / "http").glob("*.http"))
INPUTS_EACH = 6000
SEEDS = range(10)

_METHODS = (b"POST", b"GET", b"PUT", b"post", b"P OST", b"", b"CONNECT", b"OPTIONS", b"HEAD")
_TARGETS = (
    *(b"/v1/chat/completions", b"/", b"*", b"http://x/v1/models", b"HTTP://y:1/?a=b"),
    *(b"/a b", b"/\xff", b"/\x00", b"//", b"x:443", b"/%0d%0a", b"/" + b"a" * 300),
)
_VERSIONS = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/1.1 ", b"")
_ENDS = (b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\r\n", b"\n\r", b"\r\n ", b"\x0b\r\n")
_NAMES = (
    *(
        b"Content-Length",
        b"content-length",
        b"Content-Length ",
        b" Content-Length",
        b"Content_Length",
    ),
    *(b"Transfer-Encoding", b"transfer-encoding", b"Transfer-Encoding\t", b"X-Transfer-Encoding"),
    *(b"Connection", b"Expect", b"Upgrade", b"Trailer", b"TE", b"X\x00", b"X\xe9", b"", b"a:b"),
)
_VALUES = (
    *(b"chunked", b"Chunked", b"chunked, chunked", b"gzip, chunked", b"chunked, gzip", b"identity"),
    *(b"xchunked", b"chunked\x0b", b"\tchunked", b'"chunked"', b"close", b"keep-alive", b"upgrade"),
    *(b"100-continue", b"websocket", b"h2c", b"x\ry", b"x\ny", b"x\x00y", b"", b" ", b"\xff"),
)
_LENGTHS = (
    *(b"0", b"5", b"05", b"+5", b"-1", b"5, 5", b"5,6", b"0x5", b"5 5", b"5;", b"1e1", b" 5 "),
    *(b"99999999999999999999", b"18446744073709551621", b"4294967301", b"\xd9\xa5", b""),
)
_SIZES = (
    *(
        b"5",
        b"05",
        b"0",
        b"5;a=b",
        b'5;a="\r\n"',
        b"5 ",
        b" 5",
        b"0x5",
        b"+5",
        b"-5",
        b"5\t;x",
        b"g",
    ),
    *(b"fffffffffffffffff", b"100000005", b"5;\x00", b"5;\n", b"", b"5\r", b"a"),
)
_NEXT = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"


def a_request(chance: random.Random) -> bytes:
    """Mostly right, with faults where two readers might differ."""
    fault = 0.15
    pick = chance.choice

    def maybe(right: bytes, others: tuple[bytes, ...]) -> bytes:
        return pick(others) if chance.random() < fault else right

    body = chance.randbytes(chance.choice((0, 1, 5, 5, 20))).replace(b"\x00", b"a")
    lines = [
        b" ".join(
            (maybe(b"POST", _METHODS), maybe(b"/v1", _TARGETS), maybe(b"HTTP/1.1", _VERSIONS))
        ),
        b"Host: x",
    ]
    framing = chance.random()
    if framing < 0.75:
        lines.append(b"Content-Length: " + maybe(b"%d" % len(body), _LENGTHS))
    if framing > 0.6:
        lines.append(b"Transfer-Encoding: " + maybe(b"chunked", _VALUES))
        body = chunked(chance, body, maybe)
    while chance.random() < 0.3:
        lines.append(pick(_NAMES) + pick((b": ", b":", b" : ")) + pick(_VALUES + _LENGTHS))
    chance.shuffle(lines[2:])
    head = b"".join(line + maybe(b"\r\n", _ENDS) for line in lines)
    return maybe(b"", (b"\r\n", b"\n", b" ", b"\x00")) + head + maybe(b"\r\n", _ENDS) + body


def chunked(chance: random.Random, body: bytes, maybe) -> bytes:
    made = b""
    if body:
        made += maybe(b"%x" % len(body), _SIZES) + maybe(b"\r\n", _ENDS)
        made += body + maybe(b"\r\n", _ENDS)
    trailer = maybe(b"", (b"X: y\r\n", b"Content-Length: 5\r\n", b"Host: z\r\n", b"x\r\n"))
    return made + maybe(b"0", _SIZES) + maybe(b"\r\n", _ENDS) + trailer + maybe(b"\r\n", _ENDS)


def a_mutation(chance: random.Random, data: bytes) -> bytes:
    """Some bytes of it gone, doubled or other ones."""
    made = bytearray(data)
    for _ in range(chance.randrange(4)):
        at, size = chance.randrange(len(made) + 1), chance.randrange(1, 6)
        match chance.randrange(3):
            case 0:
                del made[at : at + size]
            case 1:
                made[at:at] = made[at : at + size]
            case _:
                made[at : at + 1] = chance.choice(
                    (b"\r", b"\n", b":", b" ", b"\x00", b"\xff", b"0")
                )
    return bytes(made)


def cut(chance: random.Random, data: bytes) -> list[bytes]:
    ends = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 0, 1, 3))))
    begins = [0, *ends]
    return [data[a:b] for a, b in zip(begins, [*ends, len(data)], strict=True) if a < b]


def check(data: bytes, parts: list[bytes]) -> bool:
    """Served is at most what h11 reads, message for message; anything else was refused."""
    served, written = fed(parts)
    if not served:
        assert b"HTTP/1.1 200" not in written
        return False
    read = judged(data)
    assert read is not None, f"served, and h11 refuses: {data!r}"
    assert len(served) <= len(read), f"more served than was sent: {data!r}"
    for ours, theirs in zip(served, read, strict=False):
        assert ours == theirs, data
    return True


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_each_input_that_once_mattered(path):
    data = path.read_bytes()
    check(data, [data])
    check(data, [data[at : at + 1] for at in range(len(data))])


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_served_is_what_h11_reads(seed):
    chance = random.Random(seed)
    corpus = [path.read_bytes() for path in CORPUS]
    served = 0
    for _ in range(INPUTS_EACH):
        if chance.random() < 0.3:
            data = a_mutation(chance, chance.choice(corpus))
        else:
            data = a_request(chance) + (_NEXT if chance.random() < 0.3 else b"")
        served += check(data, cut(chance, data))
    assert served > INPUTS_EACH / 10  # else nothing was tried
