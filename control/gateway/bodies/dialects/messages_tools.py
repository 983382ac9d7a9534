"""Tools, thinking and formats of Anthropic's Messages, as chat has them."""

from typing import Any

from control.gateway import errors
from control.gateway.bodies import checks, parts

Fields = dict[str, Any]

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def tool_of(tool: Fields, param: str) -> Fields:
    if tool.get("type") not in (None, "custom"):
        raise errors.InvalidValue(
            f"'{param}.type' must be custom: tools that run at the provider are not served here.",
            param=f"{param}.type",
        )
    _judge_tool(tool, param)
    function = {"name": tool["name"], "parameters": tool["input_schema"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    if tool.get("strict") is not None:
        function["strict"] = tool["strict"]
    return {"type": "function", "function": function}


_judge_tool = checks.shape(
    {
        "name": parts.name,
        "description": checks.text,
        "input_schema": parts.schema,
        "strict": checks.flag,
        **dict.fromkeys(("type", "cache_control", "input_examples", "eager_input_streaming")),
        **dict.fromkeys(("allowed_callers", "defer_loading")),
    },
    required=("name", "input_schema"),
)


def read_tool_choice(given: Fields | None, chat: Fields) -> None:
    if given is None:
        return
    kind = given.get("type")
    _judge_choice(given, "tool_choice")
    if kind == "tool":
        parts.name(given.get("name"), "tool_choice.name")
        chat["tool_choice"] = {"type": "function", "function": {"name": given["name"]}}
    else:
        chat["tool_choice"] = _CHOICES[kind]
    if given.get("disable_parallel_tool_use") is not None:
        chat["parallel_tool_calls"] = not given["disable_parallel_tool_use"]


_judge_choice = checks.shape(
    {
        "type": checks.one_of("tool", *_CHOICES),
        "name": parts.name,
        "disable_parallel_tool_use": checks.flag,
    },
    required=("type",),
)


def read_thinking(given: Fields | None, chat: Fields) -> None:
    """Templates that think are switched by `enable_thinking`; others do not read it."""
    if given is None:
        return
    _judge_thinking(given, "thinking")
    kind = given["type"]
    if kind == "adaptive":
        return
    chat["chat_template_kwargs"] = {"enable_thinking": kind == "enabled"}
    if kind == "enabled" and given.get("budget_tokens") is not None:
        chat["thinking_token_budget"] = given["budget_tokens"]


_judge_thinking = checks.shape(
    {
        "type": checks.one_of("enabled", "disabled", "adaptive"),
        "budget_tokens": checks.whole(1, 10_000_000),
        "display": None,
    },
    required=("type",),
)


def read_output(given: Fields | None, chat: Fields) -> None:
    if given is None:
        return
    _judge_output(given, "output_config")
    if given.get("effort") is not None:
        chat["reasoning_effort"] = given["effort"]
    if (wanted := given.get("format")) is not None:
        chat["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": wanted["schema"]},
        }


_judge_output = checks.shape(
    {
        "effort": checks.short(32),
        "format": checks.shape(
            {"type": checks.one_of("json_schema"), "schema": parts.schema},
            required=("type", "schema"),
        ),
    }
)
