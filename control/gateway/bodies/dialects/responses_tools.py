"""Tools and formats of OpenAI's Responses, as chat has them."""

from typing import Any

from control.gateway import errors
from control.gateway.bodies import checks, parts

Fields = dict[str, Any]


def tool_of(tool: Fields, param: str) -> Fields:
    if tool.get("type") != "function":
        raise errors.InvalidValue(
            f"'{param}.type' must be function: tools that run at the provider are not served here.",
            param=f"{param}.type",
        )
    _judge_tool(tool, param)
    members = ("name", "description", "parameters", "strict")
    given = {name: tool[name] for name in members if tool.get(name) is not None}
    return {"type": "function", "function": given}


_judge_tool = checks.shape(
    {
        "type": None,
        "name": parts.name,
        "description": checks.text,
        "parameters": parts.schema,
        "strict": checks.flag,
    },
    required=("name",),
)


def read_tool_choice(given: str | Fields) -> str | Fields:
    if isinstance(given, str):
        checks.one_of("none", "auto", "required")(given, "tool_choice")
        return given
    _judge_choice(given, "tool_choice")
    return {"type": "function", "function": {"name": given["name"]}}


_judge_choice = checks.shape(
    {"type": checks.one_of("function"), "name": parts.name}, required=("type", "name")
)


def read_format(given: Fields, param: str, chat: Fields) -> None:
    _judge_format(given, param)
    if given["type"] == "json_object":
        chat["response_format"] = {"type": "json_object"}
    elif given["type"] == "json_schema":
        members = ("name", "description", "schema", "strict")
        schema = {name: given[name] for name in members if given.get(name) is not None}
        for name in ("name", "schema"):
            if name not in schema:
                path = f"{param}.{name}"
                raise errors.MissingParameter(f"Missing required parameter: '{path}'.", param=path)
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}


_judge_format = checks.shape(
    {
        "type": checks.one_of("text", "json_object", "json_schema"),
        "name": parts.name,
        "description": checks.text,
        "schema": parts.schema,
        "strict": checks.flag,
    },
    required=("type",),
)
