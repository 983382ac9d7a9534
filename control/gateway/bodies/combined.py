"""Members of a judged body that exclude or need each other: values in, a refusal or nothing out."""

from typing import Any

from control.gateway import errors

Fields = dict[str, Any]

_GREEDY = 1e-5  # a temperature below it is taken for zero


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
    judge_least(fields, fields.get("max_completion_tokens", fields.get("max_tokens")))
    if fields.get("n", 1) > 1 and fields.get("temperature", 1) < _GREEDY:
        raise errors.InvalidValue(
            "'n' above 1 asks for different answers, and at 'temperature': 0 all are the same:"
            " send 'n': 1, or a temperature above 0.",
            param="n",
        )


def judge_least(fields: Fields, most: int | None) -> None:
    """Tokens at least, against those at most that were asked for or are allowed."""
    least = fields.get("min_tokens", 0)
    if most is not None and least > most:
        raise errors.InvalidValue(
            f"'min_tokens' is {least}, and at most {most} tokens may be made: send a smaller"
            " 'min_tokens'.",
            param="min_tokens",
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
