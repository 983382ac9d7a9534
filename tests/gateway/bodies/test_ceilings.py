"""How many tokens a call may make: the lowest ceiling, or the number that it names."""

import msgspec
import pytest

from control.gateway import errors
from control.gateway.bodies.ceilings import Room, output_tokens
from control.gateway.bodies.wire import Ask, parse
from tests.gateway.place import chat


def asked_for(body: dict) -> Ask:
    return parse("chat.completions", msgspec.json.encode(body), depth_max=64)


@pytest.mark.parametrize(
    ("named", "room", "sent"),
    [
        (None, Room(), None),
        (None, Room(output_tokens_max=100), 100),
        (None, Room(output_tokens_max=100, output_tokens_default=20), 20),
        (None, Room(output_tokens_max=10, output_tokens_default=20), 10),
        (None, Room(output_tokens_max=100, context_tokens=50), 50),
        (None, Room(context_tokens=50), 50),
        (7, Room(output_tokens_max=100), 7),
        (100, Room(output_tokens_max=100), 100),
    ],
)
def test_output_tokens_are_the_lowest_ceiling_unless_named(named, room, sent):
    assert output_tokens(asked_for(chat("hi", max_tokens=named)), room) == sent


@pytest.mark.parametrize(
    ("named", "room", "code"),
    [
        (101, Room(output_tokens_max=100), "invalid_value"),
        (51, Room(context_tokens=50), "context_length_exceeded"),
    ],
)
def test_more_than_the_limit_is_refused(named, room, code):
    with pytest.raises(errors.Refusal) as raised:
        output_tokens(asked_for(chat(max_tokens=named)), room)
    assert (raised.value.code, raised.value.param) == (code, "max_tokens")


def test_no_more_tokens_than_are_allowed_can_be_the_least():
    with pytest.raises(errors.InvalidValue, match="at most 8 tokens may be made") as raised:
        output_tokens(asked_for(chat(min_tokens=9)), Room(output_tokens_default=8))
    assert raised.value.param == "min_tokens"
