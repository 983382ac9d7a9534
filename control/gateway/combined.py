"""Members of a judged body that exclude or need each other: values in, a refusal or nothing out."""

from typing import Any

from control.gateway import errors

Fields = dict[str, Any]


def judge(fields: Fields) -> None:
    """Of a call that generates, as an engine is asked."""
    if "tools" in fields and not fields["tools"]:
        del fields["tools"]  # no tools: engines refuse the empty list
    if (choice := fields.get("tool_choice")) is not None:
        _judge_tool_choice(choice, fields)
    if fields.get("top_logprobs") and not fields.get("logprobs"):
        raise errors.InvalidValue(
            "'top_logprobs' is only allowed with 'logprobs': true.", param="top_logprobs"
        )


def _judge_tool_choice(choice: str | Fields, fields: Fields) -> None:
    tools = fields.get("tools")
    if choice in ("none", "auto"):
        if not tools:
            del fields["tool_choice"]  # it asks for nothing, and engines refuse it alone
        return
    if not tools:
        raise errors.InvalidValue(
            "'tool_choice' asks for a tool, and 'tools' names none: send 'tools' too.",
            param="tool_choice",
        )
    if isinstance(choice, dict):
        name = choice["function"]["name"]
        if not any(tool["function"]["name"] == name for tool in tools):
            raise errors.InvalidValue(
                f"'tool_choice' asks for '{name}', which is not among 'tools'.",
                param="tool_choice",
            )
