"""How many tokens a call may make, at most (pure)."""

from typing import NamedTuple

import msgspec

from control.gateway import errors
from control.gateway.bodies import combined
from control.gateway.bodies.wire import Ask


class Room(msgspec.Struct, frozen=True):
    """How many tokens a call may make: ceilings (None is none) and the route's default."""

    output_tokens_max: int | None = None
    output_tokens_default: int | None = None
    context_tokens: int | None = None

    @property
    def named_most(self) -> int | None:
        """That a call may ask for by number."""
        return lowest(self.output_tokens_max, self.context_tokens)

    @property
    def most(self) -> int | None:
        """That one may make which names no number."""
        return lowest(self.named_most, self.output_tokens_default)


class AnswerTooLong(NamedTuple):
    """More output tokens were asked for than the tightest scope or the route allows."""

    asked_tokens: int
    tokens_max: int


def output_tokens(ask: Ask, room: Room) -> int | None:
    """The max_tokens to send. An engine lowers it to what the prompt leaves of its context."""
    if not ask.generates:
        return None
    limit, context, param = room.output_tokens_max, room.context_tokens, ask.limit_name
    if ask.max_tokens is not None:
        if limit is not None and ask.max_tokens > limit:
            raise errors.InvalidValue(
                f"'{param}' is {ask.max_tokens}, at most {limit} are allowed here.",
                param=param,
                why=AnswerTooLong(ask.max_tokens, limit),
            )
        if context is not None and ask.max_tokens > context:
            raise errors.ContextTooLong(
                f"This model's maximum context length is {context} tokens, '{param}' alone is"
                f" {ask.max_tokens}.",
                param=param,
                why=AnswerTooLong(ask.max_tokens, context),
            )
        return ask.max_tokens
    most = room.most
    combined.judge_least(ask.fields, most)
    return most


def lowest(*ceilings: int | None) -> int | None:
    return min((ceiling for ceiling in ceilings if ceiling is not None), default=None)
