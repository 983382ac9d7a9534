"""OpenAI's Responses read as chat: items, instructions, tools and formats in chat members."""

from collections.abc import Callable
from typing import Any

from control.gateway import errors
from control.gateway.bodies import checks, media, parts
from control.gateway.bodies.dialects.dialect import Spoken
from control.gateway.bodies.dialects.responses_answer import Responses
from control.gateway.bodies.dialects.responses_tools import read_format, read_tool_choice, tool_of
from control.gateway.bodies.media import Link

Fields = dict[str, Any]

# Templates know one voice above the user's.
_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_INCLUDED = frozenset({"message.output_text.logprobs", "reasoning.encrypted_content"})
_SAME = ("model", "stream", "temperature", "top_p", "user", "service_tier", "parallel_tool_calls")
_READ = frozenset(
    {
        *_SAME,
        *("input", "instructions", "stream_options", "max_output_tokens", "top_logprobs", "tools"),
        *("tool_choice", "reasoning", "text", "include", "metadata", "truncation", "store"),
        *("background", "previous_response_id", "conversation"),
    }
)


def read(fields: Fields) -> Spoken:
    """`fields` have been judged one by one; what is inside them is judged here."""
    links: list[Link] = []
    chat = {name: fields[name] for name in _SAME if name in fields}
    # Members that only the route has added pass as they are.
    chat |= {name: value for name, value in fields.items() if name not in _READ}
    chat["messages"] = _messages(fields, links)
    if "max_output_tokens" in fields:
        chat["max_tokens"] = fields["max_output_tokens"]
    if effort := fields.get("reasoning", {}).get("effort"):
        chat["reasoning_effort"] = effort
    if tools := fields.get("tools"):
        chat["tools"] = [tool_of(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    if "tool_choice" in fields:
        chat["tool_choice"] = read_tool_choice(fields["tool_choice"])
    if wanted := fields.get("text", {}).get("format"):
        read_format(wanted, "text.format", chat)
    _read_logprobs(fields, chat)
    _judge_metadata(fields.get("metadata", {}))
    dialect = Responses(fields)
    return Spoken("chat.completions", chat, dialect, tuple(links), "max_output_tokens")


def _read_logprobs(fields: Fields, chat: Fields) -> None:
    for index, one in enumerate(fields.get("include", ())):
        if one not in _INCLUDED:
            param = f"include[{index}]"
            raise errors.InvalidValue(
                f"'{param}' must be one of {', '.join(sorted(_INCLUDED))}.", param=param
            )
    if "message.output_text.logprobs" in fields.get("include", ()) or "top_logprobs" in fields:
        chat |= {"logprobs": True, "top_logprobs": fields.get("top_logprobs", 0)}


def _judge_metadata(metadata: Fields) -> None:
    if len(metadata) > 16:
        raise errors.InvalidValue("'metadata' may have 16 members.", param="metadata")
    for name, value in metadata.items():
        path = f"metadata.{name[:64]}"
        checks.short(512)(value, path)
        if len(name) > 64:
            raise errors.InvalidValue(f"'{path}…' has a name over 64 characters.", param=path)


# --- items ----------------------------------------------------------------------------------


def _messages(fields: Fields, links: list[Link]) -> list[Fields]:
    told: list[Fields] = []
    if instructions := fields.get("instructions"):
        told.append({"role": "system", "content": instructions})
    given = fields["input"]
    if isinstance(given, str):
        return [*told, {"role": "user", "content": given}]
    for index, item in enumerate(given):
        _read_item(item, f"input[{index}]", told, links)
    return [message for message in told if "content" in message]


def _read_item(item: Fields, param: str, told: list[Fields], links: list[Link]) -> None:
    read_item = _ITEMS.get(str(item.get("type") or "message"))
    if read_item is None:
        raise errors.InvalidValue(
            f"'{param}.type' must be one of {', '.join(sorted(_ITEMS))}.", param=f"{param}.type"
        )
    read_item(item, param, told, links)


def _read_message(item: Fields, param: str, told: list[Fields], links: list[Link]) -> None:
    role = _ROLES.get(item["role"]) if isinstance(item.get("role"), str) else None
    if role is None:
        raise errors.InvalidValue(
            f"'{param}.role' must be one of {', '.join(sorted(_ROLES))}.", param=f"{param}.role"
        )
    content = _content(item.get("content"), f"{param}.content", links)
    last = told[-1] if told else {}
    if role == "system" and last.get("role") == "system" and isinstance(content, str):
        # Some templates take one system message, and only at the beginning.
        last["content"] = f"{last['content']}\n\n{content}"
    elif role == "assistant" and last.get("role") == "assistant" and "content" not in last:
        last["content"] = content
    else:
        told.append({"role": role, "content": content})


def _content(content: Any, param: str, links: list[Link]) -> Any:
    """Text where it is only text, which all templates take."""
    if isinstance(content, str):
        return content
    checks.array(10_000, checks.object_, least=1)(content, param)
    made = [_part(part, f"{param}[{at}]", links) for at, part in enumerate(content)]
    if all(part["type"] == "text" for part in made):
        return "".join([part["text"] for part in made])
    return made


def _part(part: Fields, param: str, links: list[Link]) -> Fields:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text", "refusal"):
        member = "refusal" if kind == "refusal" else "text"
        checks.text(part.get(member), f"{param}.{member}")
        return {"type": "text", "text": part[member]}
    if kind == "input_image":
        if part.get("image_url") is None:
            path = f"{param}.image_url"
            raise errors.InvalidValue(
                f"'{path}' must be given: files are not kept here.", param=path
            )
        media.note(part["image_url"], f"{param}.image_url", links)
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    if kind == "input_audio":
        parts.audio(part.get("input_audio"), f"{param}.input_audio")
        return {"type": "input_audio", "input_audio": part["input_audio"]}
    raise errors.InvalidValue(
        f"'{param}.type' must be input_text, output_text, refusal, input_image or input_audio.",
        param=f"{param}.type",
    )


def _read_call(item: Fields, param: str, told: list[Fields], _links: list[Link]) -> None:
    """Calls in a row are of one answer, with what it thought and said before them."""
    _call_id(item.get("call_id"), f"{param}.call_id")
    parts.name(item.get("name"), f"{param}.name")
    checks.text(item.get("arguments"), f"{param}.arguments")
    if not told or told[-1]["role"] != "assistant":
        told.append({"role": "assistant"})
    function = {"name": item["name"], "arguments": item["arguments"]}
    call = {"id": item["call_id"], "type": "function", "function": function}
    told[-1].setdefault("content", None)
    told[-1].setdefault("tool_calls", []).append(call)


def _read_output(item: Fields, param: str, told: list[Fields], links: list[Link]) -> None:
    _call_id(item.get("call_id"), f"{param}.call_id")
    content = _content(item.get("output"), f"{param}.output", links)
    told.append({"role": "tool", "tool_call_id": item["call_id"], "content": content})


def _read_reasoning(item: Fields, param: str, told: list[Fields], _links: list[Link]) -> None:
    """What it thought belongs to what it says next; a summary is for readers."""
    thoughts = []
    content = item.get("content") or []
    checks.array(10_000)(content, f"{param}.content")
    for at, part in enumerate(content):
        path = f"{param}.content[{at}]"
        checks.object_(part, path)
        checks.text(part.get("text"), f"{path}.text")
        thoughts.append(part["text"])
    if thoughts:
        told.append({"role": "assistant", "reasoning": "\n".join(thoughts)})


_call_id = checks.short(256, least=1)
_ITEMS: dict[str, Callable[[Fields, str, list[Fields], list[Link]], None]] = {
    "message": _read_message,
    "function_call": _read_call,
    "function_call_output": _read_output,
    "reasoning": _read_reasoning,
}
