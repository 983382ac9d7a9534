"""Bodies of inference calls: parsed once, judged member by member, written anew for the engine."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from control.gateway import errors
from control.gateway.bodies import checks, combined, members, parts
from control.gateway.bodies.dialects.dialect import Dialect, Spoken
from control.gateway.bodies.dialects.table import DIALECTS
from control.gateway.bodies.media import Link

# A string token, and the colon after it if it names a member. Possessive: no backtracking.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"\s*+(:?)', re.DOTALL)
SPACE_BEFORE_COLON = re.compile(rb'"\s+:')
_INPUT_BYTES_PER_TOKEN = 3
_INPUT_MARGIN_RATIO = 1.1
_GENERATING = frozenset({"chat.completions", "completions"})


class Ask(msgspec.Struct):
    """What a tenant asked for, judged. `fields` are the members that go on to an engine."""

    endpoint: str  # as an engine is asked
    model: str
    stream: bool
    include_usage: bool  # the tenant asked for the usage chunk
    running_usage: bool  # the tenant asked for usage on every chunk
    choices: int  # answers to generate; none for what only reads
    service_tier: str | None  # how urgent the tenant asks it to be; ours to act on
    max_tokens: int | None
    text_bytes: int
    fields: dict[str, Any]
    called: str  # the endpoint that the tenant called
    conversation: str | None = None  # what it calls the conversation that it goes on with
    limit_name: str = "max_tokens"  # as the tenant named it
    links: tuple[Link, ...] = ()  # media that an engine would fetch from somewhere
    dialect: Dialect | None = None  # how to answer; None is as OpenAI does
    salt: str = ""  # of an engine's prefix cache
    tier: str = ""  # that it is served with, if the tenant asked for one

    @property
    def input_estimate(self) -> int:
        return estimate_of(self.text_bytes)

    @property
    def generates(self) -> bool:
        return self.choices > 0


def estimate_of(text_bytes: int) -> int:
    """Tokens: an upper bound for ordinary text; the engine's own count replaces it."""
    return math.ceil(text_bytes / _INPUT_BYTES_PER_TOKEN * _INPUT_MARGIN_RATIO)


# Names of members beyond the table that the route of this name lets through.
More = Callable[[str], tuple[str, ...]]


def _none_more(_route: str) -> tuple[str, ...]:
    return ()


def parse(endpoint: str, raw: bytes, *, depth_max: int, more: More = _none_more) -> Ask:
    """Raises a refusal that names the member and says what would be right."""
    body = _decode(raw)
    count, depth, text_bytes = _measure(body, depth_max)
    if depth > depth_max:
        raise errors.BadRequest(f"The body is nested deeper than {depth_max} levels.")
    if count != _members_in(raw, count):
        _refuse_repeated(raw)
    fields = _judged(endpoint, body, more)
    speak = DIALECTS.get(endpoint)
    if speak is not None:
        ask = _spoken(endpoint, speak(fields), text_bytes)
        ask.conversation = _conversation(body.get("prompt_cache_key"))
        return ask
    options = fields.pop("stream_options", {})
    stream = fields.get("stream", False)
    if options and not stream:
        raise errors.InvalidValue(
            "'stream_options' is only allowed with 'stream': true.", param="stream_options"
        )
    _judge_stream_options(options)
    combined.judge(fields)
    limit = fields.pop("max_tokens", None)
    newer = fields.pop("max_completion_tokens", None)
    return Ask(
        endpoint=endpoint,
        model=fields.pop("model"),
        stream=stream,
        include_usage=options.get("include_usage") is True,
        running_usage=options.get("continuous_usage_stats") is True,
        choices=_choices(endpoint, fields),
        service_tier=fields.pop("service_tier", None),
        max_tokens=limit if newer is None else newer,
        text_bytes=text_bytes,
        fields=fields,
        conversation=_conversation(body.get("prompt_cache_key")),
        called=endpoint,
        limit_name="max_tokens" if newer is None else "max_completion_tokens",
        links=parts.links_of(fields["messages"]) if endpoint == "chat.completions" else (),
    )


def _spoken(endpoint: str, spoken: Spoken, text_bytes: int) -> Ask:
    """Another API's call, as chat. Its answers tell usage, which is never cut out of them."""
    fields, generates = spoken.fields, spoken.endpoint in _GENERATING
    combined.judge(fields)
    return Ask(
        endpoint=spoken.endpoint,
        model=fields.pop("model"),
        stream=fields.get("stream", False),
        include_usage=True,
        running_usage=True,
        choices=int(generates),
        service_tier=fields.pop("service_tier", None),
        max_tokens=fields.pop("max_tokens", None),
        text_bytes=text_bytes if generates else 0,  # counting reads, and computes nothing
        fields=fields,
        called=endpoint,
        limit_name=spoken.limit_name,
        links=spoken.links,
        dialect=spoken.dialect,
    )


def _conversation(name: Any) -> str | None:
    """It names a cache and is no order: what is not a name is passed over."""
    return name if isinstance(name, str) and name else None


def _decode(raw: bytes) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(raw)
    except RecursionError:
        raise errors.BadRequest("The body is nested too deeply.") from None
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        raise errors.BadRequest(
            "The body is not valid JSON: send one object in UTF-8, without NaN, lone surrogates"
            " or trailing data."
        ) from None
    if not isinstance(body, dict):
        raise errors.InvalidType("The body must be a JSON object.")
    return body


def _measure(body: dict[str, Any], depth_max: int) -> tuple[int, int, int]:
    """Members, depth and bytes of text, without recursion: bodies are hostile."""
    count, depth, text = len(body), 1, 0
    level: list[Any] = [body.values()]
    while level and depth <= depth_max:
        below: list[Any] = []
        for values in level:
            for child in values:
                kind = type(child)
                if kind is str:
                    text += len(child) if child.isascii() else len(child.encode())
                elif kind is dict:
                    count += len(child)
                    below.append(child.values())
                elif kind is list:
                    below.append(child)
                elif kind is int:
                    text += _INPUT_BYTES_PER_TOKEN  # a token id, at most
        level = below
        depth += bool(level)
    return count, depth, text


def _members_in(raw: bytes, decoded: int) -> int:
    """How many members the text names, the repeated ones too."""
    # Without spaces every name ends in `":`. So may text, hence there may be more, never fewer.
    if raw.count(b'":') == decoded and not SPACE_BEFORE_COLON.search(raw):
        return decoded
    return sum(1 for colon in _STRING.findall(raw) if colon)


def _refuse_repeated(raw: bytes) -> None:
    """Two members of one name, compared after unescaping: which one counts would be a guess."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        seen = dict(pairs)
        if len(seen) != len(pairs):
            names = [name for name, _ in pairs]
            repeated = next(name for name in names if names.count(name) > 1)
            raise errors.InvalidValue(
                f"'{repeated}' is given more than once in one object.", param=repeated
            )
        return seen

    json.loads(raw, object_pairs_hook=unique)


def _judged(endpoint: str, body: dict[str, Any], more: More) -> dict[str, Any]:
    """The members to keep; null is as good as absent."""
    allowed = members.ALLOWED[endpoint]
    fields = {}
    for name, value in body.items():
        check = allowed.get(name)
        if check is None:
            if _is_more(name, body.get("model"), more):
                fields[name] = value
            elif name not in members.IGNORED:
                raise errors.UnknownParameter(f"Unknown parameter: '{name[:64]}'.", param=name[:64])
        elif value is not None:
            check(value, name)
            fields[name] = value
    for name in members.REQUIRED[endpoint]:
        if name not in fields:
            raise errors.MissingParameter(f"Missing required parameter: '{name}'.", param=name)
    return fields


def _is_more(name: str, route: Any, more: More) -> bool:
    return isinstance(route, str) and name not in members.OURS and name in more(route)


def _judge_stream_options(options: dict[str, Any]) -> None:
    for name, value in options.items():
        param = f"stream_options.{name}"
        if name not in members.STREAM_OPTIONS:
            raise errors.UnknownParameter(f"Unknown parameter: '{param[:96]}'.", param=param[:96])
        if value is not None:
            checks.flag(value, param)


def _choices(endpoint: str, fields: dict[str, Any]) -> int:
    if endpoint not in _GENERATING:
        return 0
    prompt, number = fields.get("prompt"), fields.get("n", 1)
    return number * len(prompt) if type(prompt) is list and type(prompt[0]) is not int else number


def for_engine(
    ask: Ask,
    *,
    served_name: str,
    stop: tuple[str, ...],
    max_tokens: int | None,
    token_ids: bool = False,
    salted: bool = False,
) -> bytes:
    """The body as the engine gets it. Usage is always asked for; what the tenant did not ask for
    is taken out again on the way back. `stop` are all words, the tenant's own among them."""
    body = {"model": served_name, **ask.fields}
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    if ask.stream:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if stop:
        body["stop"] = stop
    if token_ids:
        body["return_token_ids"] = True
    if salted and ask.salt:
        body["cache_salt"] = ask.salt
    return msgspec.json.encode(body)
