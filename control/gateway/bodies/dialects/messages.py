"""Anthropic's Messages read as chat: system, blocks, tools and thinking in chat members."""

from collections.abc import Callable
from typing import Any

import msgspec

from control.gateway import errors
from control.gateway.bodies import checks, media, parts
from control.gateway.bodies.dialects.dialect import Spoken
from control.gateway.bodies.dialects.messages_answer import Counted, Messages
from control.gateway.bodies.dialects.messages_tools import (
    read_output,
    read_thinking,
    read_tool_choice,
    tool_of,
)
from control.gateway.bodies.media import Link

Fields = dict[str, Any]

_ROLES = ("user", "assistant", "system")
_SERVICE_TIERS = {"auto": "auto", "standard_only": "default"}


def read(fields: Fields) -> Spoken:
    """`fields` have been judged one by one; what is inside them is judged here."""
    chat, links = _conversation(fields)
    for name in ("stream", "temperature", "top_p", "top_k", "max_tokens"):
        if name in fields:
            chat[name] = fields[name]
    if "stop_sequences" in fields:
        chat["stop"] = fields["stop_sequences"]
    if "service_tier" in fields:
        chat["service_tier"] = _SERVICE_TIERS[fields["service_tier"]]
    if user := fields.get("metadata", {}).get("user_id"):
        chat["user"] = user
    read_tool_choice(fields.get("tool_choice"), chat)
    read_output(fields.get("output_config"), chat)
    dialect = Messages(fields["model"], tuple(fields.get("stop_sequences", ())))
    return Spoken("chat.completions", chat | _beyond(fields), dialect, tuple(links))


def read_counted(fields: Fields) -> Spoken:
    """The same conversation, for an engine to count instead of to answer."""
    chat, links = _conversation(fields)
    chat.pop("thinking_token_budget", None)
    return Spoken("tokenize", chat | _beyond(fields), Counted(), tuple(links))


def _beyond(fields: Fields) -> Fields:
    """Members that only the route has added pass as they are."""
    return {name: value for name, value in fields.items() if name not in _KNOWN}


_KNOWN = frozenset(
    {
        *("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"),
        *("stream", "temperature", "top_p", "top_k", "max_tokens", "stop_sequences"),
        *("metadata", "service_tier"),
    }
)


def _conversation(fields: Fields) -> tuple[Fields, list[Link]]:
    links: list[Link] = []
    told: list[Fields] = []
    if system := _text_of(fields.get("system", ""), "system"):
        told.append({"role": "system", "content": system})
    for index, message in enumerate(fields["messages"]):
        _read_message(message, f"messages[{index}]", told, links)
    chat = {"model": fields["model"], "messages": told}
    if told[-1]["role"] == "assistant":
        # The beginning of the answer is given: the model goes on from it.
        chat |= {"add_generation_prompt": False, "continue_final_message": True}
    if tools := fields.get("tools"):
        chat["tools"] = [tool_of(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    read_thinking(fields.get("thinking"), chat)
    return chat, links


# --- messages -------------------------------------------------------------------------------


def _read_message(message: Fields, param: str, told: list[Fields], links: list[Link]) -> None:
    role, content = message.get("role"), message.get("content")
    if role not in _ROLES:
        raise errors.InvalidValue(
            f"'{param}.role' must be user or assistant.", param=f"{param}.role"
        )
    if isinstance(content, str):
        told.append({"role": role, "content": content})
        return
    blocks = _blocks(content, f"{param}.content")
    if role == "assistant":
        told.append(_assistant(blocks))
    elif role == "system":
        told.append({"role": "system", "content": _text_of(content, f"{param}.content")})
    else:
        _read_user(blocks, told, links)


def _blocks(content: Any, param: str) -> list[tuple[str, Fields, str]]:
    """Kind, block and path of each."""
    checks.array(10_000, checks.object_, least=1)(content, param)
    return [(str(block.get("type")), block, f"{param}[{at}]") for at, block in enumerate(content)]


def _read_user(
    blocks: list[tuple[str, Fields, str]], told: list[Fields], links: list[Link]
) -> None:
    """Results of tools become messages of their own, in their places."""
    pending: list[Fields] = []
    for kind, block, param in blocks:
        if kind != "tool_result":
            pending.append(_part(kind, block, param, links))
            continue
        _flush(pending, told)
        text, seen = _result(block, param, links)
        told.append({"role": "tool", "tool_call_id": _call_id(block, param), "content": text})
        pending = seen
    _flush(pending, told)


def _flush(pending: list[Fields], told: list[Fields]) -> None:
    if len(pending) == 1 and pending[0]["type"] == "text":
        told.append({"role": "user", "content": pending[0]["text"]})
    elif pending:
        told.append({"role": "user", "content": list(pending)})


def _call_id(block: Fields, param: str) -> str:
    checks.short(256, least=1)(block.get("tool_use_id"), f"{param}.tool_use_id")
    return block["tool_use_id"]


def _result(block: Fields, param: str, links: list[Link]) -> tuple[str, list[Fields]]:
    """Its text, and its pictures: chat has them only in a user's message."""
    content = block.get("content") or ""
    if isinstance(content, str):
        return content, []
    made = [
        _part(kind, one, path, links) for kind, one, path in _blocks(content, f"{param}.content")
    ]
    text = "\n".join([part["text"] for part in made if part["type"] == "text"])
    return text, [part for part in made if part["type"] != "text"]


def _part(kind: str, block: Fields, param: str, links: list[Link]) -> Fields:
    read_part = _PARTS.get(kind)
    if read_part is None:
        raise errors.InvalidValue(
            f"'{param}.type' must be one of {', '.join(sorted(_PARTS))} or tool_result here.",
            param=f"{param}.type",
        )
    return read_part(block, param, links)


def _text_part(block: Fields, param: str, _links: list[Link]) -> Fields:
    checks.text(block.get("text"), f"{param}.text")
    return {"type": "text", "text": block["text"]}


def _image_part(block: Fields, param: str, links: list[Link]) -> Fields:
    source, path = block.get("source"), f"{param}.source"
    checks.object_(source, path)
    kind = source.get("type")
    if kind == "base64":
        checks.short(128, least=1)(source.get("media_type"), f"{path}.media_type")
        checks.text(source.get("data"), f"{path}.data")
        url, path = f"data:{source['media_type']};base64,{source['data']}", f"{path}.media_type"
    elif kind == "url":
        url, path = source.get("url"), f"{path}.url"
    else:
        raise errors.InvalidValue(f"'{path}.type' must be base64 or url.", param=f"{path}.type")
    media.note(url, path, links)
    return {"type": "image_url", "image_url": {"url": url}}


def _document_part(block: Fields, param: str, _links: list[Link]) -> Fields:
    source, path = block.get("source"), f"{param}.source"
    checks.object_(source, path)
    if source.get("type") != "text":
        raise errors.InvalidValue(
            f"'{path}.type' must be text: files are not read here.", param=f"{path}.type"
        )
    checks.text(source.get("data"), f"{path}.data")
    return {"type": "text", "text": source["data"]}


_PARTS: dict[str, Callable[[Fields, str, list[Link]], Fields]] = {
    "text": _text_part,
    "image": _image_part,
    "document": _document_part,
}


def _assistant(blocks: list[tuple[str, Fields, str]]) -> Fields:
    texts, thoughts, calls = [], [], []
    for kind, block, param in blocks:
        if kind == "text":
            texts.append(_text_part(block, param, [])["text"])
        elif kind == "thinking":
            checks.text(block.get("thinking"), f"{param}.thinking")
            thoughts.append(block["thinking"])
        elif kind == "tool_use":
            calls.append(_tool_use(block, param))
        elif kind != "redacted_thinking":  # of no use to any model but the one that wrote it
            raise errors.InvalidValue(
                f"'{param}.type' must be text, thinking or tool_use here.", param=f"{param}.type"
            )
    message: Fields = {"role": "assistant", "content": "".join(texts) or None}
    if thoughts:
        message["reasoning"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _tool_use(block: Fields, param: str) -> Fields:
    checks.short(256, least=1)(block.get("id"), f"{param}.id")
    parts.name(block.get("name"), f"{param}.name")
    given = block.get("input") or {}
    checks.object_(given, f"{param}.input")
    arguments = msgspec.json.encode(given).decode()
    function = {"name": block["name"], "arguments": arguments}
    return {"id": block["id"], "type": "function", "function": function}


def _text_of(content: Any, param: str) -> str:
    if isinstance(content, str):
        return content
    texts = []
    for kind, block, path in _blocks(content, param):
        if kind != "text":
            raise errors.InvalidValue(f"'{path}.type' must be text.", param=f"{path}.type")
        texts.append(_text_part(block, path, [])["text"])
    return "\n".join(texts)
