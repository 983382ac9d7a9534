"""Messages, content parts, tools and answer formats of chat calls, judged."""

import re
from collections.abc import Callable
from typing import Any

from control.gateway import errors
from control.gateway.bodies import checks, media
from control.gateway.bodies.checks import Check
from control.gateway.bodies.media import Link

SCHEMA_BYTES_MAX = 16 * 1024
_NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
# Tuples: what a tenant sends may be of any type, and a set would ask for its hash.
_ROLES = ("developer", "system", "user", "assistant", "tool", "function")
_PLAIN = ("user", "assistant", "system", "developer")
_AUDIO_FORMATS = ("wav", "mp3", "flac", "ogg", "opus", "aac", "m4a", "webm", "pcm16")


def name(value: Any, param: str) -> None:
    checks.text(value, param)
    if not _NAME.fullmatch(value):
        raise errors.InvalidValue(
            f"'{param}' must be 1 to 64 letters, digits, underscores or dashes.", param=param
        )


def schema(value: Any, param: str) -> None:
    _schema(value, param)


_schema = checks.sized(SCHEMA_BYTES_MAX, checks.object_)
_grammar = checks.sized(SCHEMA_BYTES_MAX, checks.text)

# --- messages -------------------------------------------------------------------------------


def message(value: Any, param: str) -> None:
    checks.object_(value, param)
    if value.get("role") not in _ROLES:
        raise errors.InvalidValue(
            f"'{param}.role' must be one of {', '.join(sorted(_ROLES))}.", param=f"{param}.role"
        )
    content = value.get("content")
    if content is not None and not isinstance(content, str | list):
        raise errors.InvalidType(
            f"'{param}.content' must be a string or an array of parts.", param=f"{param}.content"
        )


def is_plain(value: Any) -> bool:
    """A message of text alone."""
    return type(value) is dict and value.get("role") in _PLAIN and type(value.get("content")) is str


def links_of(messages: list[dict[str, Any]]) -> tuple[Link, ...]:
    """Judge the parts of all messages; what is to be fetched from hosts comes back."""
    links: list[Link] = []
    for index, one in enumerate(messages):
        content = one.get("content")
        if type(content) is list:
            for place, part in enumerate(content):
                _judge_part(part, f"messages[{index}].content[{place}]", links)
    return tuple(links)


def _judge_part(part: Any, param: str, links: list[Link]) -> None:
    checks.object_(part, param)
    judge = _PARTS.get(part.get("type")) if isinstance(part.get("type"), str) else None
    if judge is None:
        raise errors.InvalidValue(
            f"'{param}.type' must be one of {', '.join(sorted(_PARTS))}.", param=f"{param}.type"
        )
    judge(part, param, links)


def _text_part(part: dict[str, Any], param: str, _links: list[Link]) -> None:
    member = part["type"]
    checks.text(part.get(member), f"{param}.{member}")


def _url_part(part: dict[str, Any], param: str, links: list[Link]) -> None:
    member = part["type"]
    given, path = part.get(member), f"{param}.{member}"
    _only(part, ("type", member), param)
    if isinstance(given, dict):
        _only(given, ("url", "detail"), path)
        given, path = given.get("url"), f"{path}.url"
    media.note(given, path, links)


def _audio_part(part: dict[str, Any], param: str, _links: list[Link]) -> None:
    _only(part, ("type", "input_audio"), param)
    audio(part.get("input_audio"), f"{param}.input_audio")


audio = checks.shape(
    {"data": checks.text, "format": checks.one_of(*_AUDIO_FORMATS)}, required=("data", "format")
)


def _only(given: dict[str, Any], known: tuple[str, ...], param: str) -> None:
    """An engine's own members of a part (a cache's id, embeddings) are not for tenants to set."""
    for one in given:
        if one not in known and one != "cache_control":
            path = f"{param}.{one[:64]}"
            raise errors.UnknownParameter(f"Unknown parameter: '{path}'.", param=path)


_PARTS: dict[str, Callable[[dict[str, Any], str, list[Link]], None]] = {
    "text": _text_part,
    "refusal": _text_part,
    "image_url": _url_part,
    "video_url": _url_part,
    "audio_url": _url_part,
    "input_audio": _audio_part,
}

# --- tools ----------------------------------------------------------------------------------

tool: Check = checks.shape(
    {
        "type": checks.one_of("function"),
        "function": checks.shape(
            {
                "name": name,
                "description": checks.text,
                "parameters": schema,
                "strict": checks.flag,
            },
            required=("name",),
        ),
        "cache_control": None,
    },
    required=("type", "function"),
)
tool_choice: Check = checks.either(
    (str, checks.one_of("none", "auto", "required")),
    (
        dict,
        checks.shape(
            {
                "type": checks.one_of("function"),
                "function": checks.shape({"name": name}, required=("name",)),
            },
            required=("type", "function"),
        ),
    ),
)

# --- formats of the answer ------------------------------------------------------------------

_response_format = checks.shape(
    {
        "type": checks.one_of("text", "json_object", "json_schema"),
        "json_schema": checks.shape(
            {
                "name": name,
                "description": checks.text,
                "schema": schema,
                "strict": checks.flag,
            },
            required=("name", "schema"),
        ),
    },
    required=("type",),
)


def response_format(value: Any, param: str) -> None:
    _response_format(value, param)
    wanted, given = value["type"] == "json_schema", value.get("json_schema") is not None
    path = f"{param}.json_schema"
    if wanted and not given:
        raise errors.MissingParameter(f"Missing required parameter: '{path}'.", param=path)
    if given and not wanted:
        raise errors.InvalidValue(
            f"'{path}' belongs to 'type': 'json_schema', and to no other.", param=path
        )


_CONSTRAINTS: dict[str, Check] = {
    "json": checks.sized(
        SCHEMA_BYTES_MAX, checks.either((dict, checks.object_), (str, checks.text))
    ),
    "regex": _grammar,
    "choice": checks.sized(SCHEMA_BYTES_MAX, checks.array(1024, checks.text, least=1)),
    "grammar": _grammar,
    "json_object": checks.flag,
    "structural_tag": _grammar,
}
_structured = checks.shape(
    _CONSTRAINTS
    | dict.fromkeys(
        ("disable_any_whitespace", "disable_additional_properties"),
        checks.flag,
    )
    | {"whitespace_pattern": checks.short(256)}
)


def structured_outputs(value: Any, param: str) -> None:
    _structured(value, param)
    given = [one for one in _CONSTRAINTS if value.get(one) is not None]
    if len(given) != 1:
        raise errors.InvalidValue(
            f"'{param}' must have exactly one of {', '.join(_CONSTRAINTS)}.", param=param
        )


# What the rendering of a template takes for itself; all else only fills the model's own template.
_TEMPLATE_TAKEN = frozenset(
    {
        *("chat_template", "conversation", "messages", "tools", "documents", "tokenize"),
        *("add_generation_prompt", "continue_final_message", "padding", "truncation"),
        *("max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask"),
        *("tokenizer_kwargs", "template", "self"),
    }
)
_TEMPLATE_MEMBERS_MAX = 16


def template_kwargs(value: Any, param: str) -> None:
    """Switches of the model's own template: scalars, and none that could bring another template."""
    checks.object_(value, param)
    if len(value) > _TEMPLATE_MEMBERS_MAX:
        raise errors.InvalidValue(
            f"'{param}' may have {_TEMPLATE_MEMBERS_MAX} members, not {len(value)}.", param=param
        )
    for key, inner in value.items():
        path = f"{param}.{key[:64]}"
        if key in _TEMPLATE_TAKEN or not _NAME.fullmatch(key):
            raise errors.UnknownParameter(f"Unknown parameter: '{path}'.", param=path)
        if not isinstance(inner, str | int | float | None) or len(str(inner)) > 256:
            raise errors.InvalidType(
                f"'{path}' must be true, false, a number or a short string.", param=path
            )


def logit_bias(value: Any, param: str) -> None:
    checks.object_(value, param)
    if len(value) > 300:
        raise errors.InvalidValue(f"'{param}' may have 300 members, not {len(value)}.", param=param)
    for token, bias in value.items():
        path = f"{param}.{token[:20]}"
        if not (token.isascii() and token.isdigit() and len(token) <= 10):
            raise errors.InvalidValue(f"'{path}' must be named by a token id.", param=path)
        _bias(bias, path)


_bias = checks.number(-100, 100)
