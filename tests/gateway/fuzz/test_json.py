"""What is sent on is what was judged: bodies, with a strict second reader of JSON."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from control.gateway.bodies import ordinary, wire
from control.gateway.errors import Refusal

CORPUS = sorted((Path(__file__).parent / "corpus" / "json").glob("*.json"))
INPUTS_EACH = 6000
SEEDS = range(10)
OURS = frozenset({"model", "stream_options", "max_tokens"})  # written by us, whatever was asked
TAKEN = frozenset({"max_completion_tokens", "service_tier"})  # acted on, and not sent on

_TOKENS = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"\\",
        b"null",
        b"true",
        b"NaN",
        b"Infinity",
        b"-0",
    ),
    *(b"1e999", b"1e-999", b"01", b"0x1", b"1.", b".5", b"-", b"\\ud83d", b"\\ude00", b"\\u0000"),
    *(b"\xc3\x28", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b" ", b"\n", b"\t", b"\x00", b"\x0b"),
    *(b'"model":"big",', b'"mod\\u0065l":"big",', b'"stream":true,', b'"n":2,', b"9" * 30, b"//x"),
)


class Unlike(ValueError):
    """A reader that is as strict as it should be refuses the text."""


def strictly(raw: bytes) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise Unlike("repeated member")
        return dict(pairs)

    def never(text: str) -> None:
        raise Unlike(text)

    def finite(text: str) -> float:
        return float(text) if math.isfinite(float(text)) else never(text)

    try:
        text = raw.decode("utf-8")
        value = json.loads(text, object_pairs_hook=unique, parse_constant=never, parse_float=finite)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # no lone surrogates
    except (ValueError, RecursionError) as error:
        raise Unlike(str(error)) from None
    return value


def check(raw: bytes) -> bool:
    """Accepted only if a strict reader accepts it, and then sent on as that one reads it."""
    try:
        ask = wire.parse("chat.completions", raw, depth_max=64)
    except Refusal as raised:
        refusal = raised
    else:
        refusal = None
    whole = ordinary.read(raw, depth_max=64)
    assert whole is None or not refusal and whole == ask, raw
    if refusal:
        assert refusal.status == 400, raw
        assert "Error" not in refusal.message, raw  # no library's words
        return False
    read = strictly(raw)
    sent = strictly(wire.for_engine(ask, served_name="served", stop=(), max_tokens=ask.max_tokens))
    assert sent["model"] == "served"
    assert ask.model == read["model"], raw
    assert ask.stream == (read.get("stream") or False), raw
    asked = {name: value for name, value in read.items() if value is not None}
    for name, value in sent.items():
        assert name in OURS or value == asked[name], (name, raw)
    limit = asked.get("max_completion_tokens", asked.get("max_tokens"))
    assert sent.get("max_tokens") == limit, raw
    return True


def a_value(chance: random.Random, depth: int = 0) -> bytes:
    match chance.randrange(9 if depth < 4 else 6):
        case 0:
            return b"%d" % chance.randrange(-3, 30)
        case 1:
            return chance.choice((b"true", b"false", b"null"))
        case 2:
            return chance.choice((b"0.5", b"1e3", b"-0.0", b"1E-2", b"2.0"))
        case 3 | 4 | 5:
            text = "".join(chance.choice("ab\u20ac\U0001f600 {}:,/") for _ in range(4))
            return json.dumps(text, ensure_ascii=chance.random() < 0.5).encode()
        case 6:
            values = [a_value(chance, depth + 1) for _ in range(chance.randrange(3))]
            return b"[" + b",".join(values) + b"]"
        case _:
            members = [
                b'"%c":' % chance.choice(b"abc") + a_value(chance, depth + 1)
                for _ in range(chance.randrange(3))
            ]
            return b"{" + b",".join(members) + b"}"


def a_body(chance: random.Random) -> bytes:
    names = (
        *("stream", "n", "temperature", "max_tokens", "max_completion_tokens", "stop", "user"),
        *("tools", "response_format", "logit_bias", "seed", "metadata", "service_tier", "x"),
    )
    content = a_value(chance) if chance.random() < 0.2 else b'"hello \\ud83d\\ude00"'
    members = [
        b'"model":"chat"',
        b'"messages":[{"role":"user","content":' + content + b"}]",
    ]
    for name in chance.sample(names, chance.randrange(4)):
        members.append(b'"%b":%b' % (name.encode(), a_value(chance)))
    chance.shuffle(members)
    blank = chance.choice((b"", b"", b" ", b"\n\t"))
    return b"{" + (b"," + blank).join(members) + b"}" + blank


def a_mutation(chance: random.Random, data: bytes) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(made) + 1)
        if chance.random() < 0.4:
            del made[at : at + chance.randrange(1, 4)]
        else:
            made[at:at] = chance.choice(_TOKENS)
    return bytes(made)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_each_body_that_once_mattered(path):
    assert check(path.read_bytes()) is path.stem.startswith("good")


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_sent_on_is_what_a_strict_reader_reads(seed):
    chance = random.Random(seed)
    corpus = [path.read_bytes() for path in CORPUS if path.stat().st_size < 2000]
    accepted = 0
    for _ in range(INPUTS_EACH):
        if chance.random() < 0.25:
            raw = a_mutation(chance, chance.choice(corpus))
        else:
            raw = a_body(chance)
            raw = a_mutation(chance, raw) if chance.random() < 0.4 else raw
        accepted += check(raw)
    assert accepted > INPUTS_EACH / 20  # else nothing was tried
