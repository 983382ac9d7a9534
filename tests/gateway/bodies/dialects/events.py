"""Calls in other dialects, chat chunks to feed a translator with, and the events it makes."""

import json

from control.gateway.bodies import wire


def chunks(*deltas: dict, finish: str | None, usage: tuple[int, int, int]) -> list[bytes]:
    """As an engine with running usage sends them: content, the finish, the usage."""
    tokens_in, tokens_out, cached = usage
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    running = {"prompt_tokens": tokens_in, "completion_tokens": 1, "total_tokens": tokens_in + 1}
    made = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}], "usage": running}
        for delta in deltas
    ]
    if finish:
        made.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    final = {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    made.append({"choices": [], "usage": final})
    return [json.dumps(base | one).encode() for one in made]


def events_of(data: bytes) -> list[tuple[str, dict]]:
    events = []
    for block in data.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            assert [line.partition(": ")[0] for line in lines] == ["event", "data"]
            events.append((lines[0][7:], json.loads(lines[1][6:])))
    return events


def kinds(events: list[tuple[str, dict]]) -> list[str]:
    return [name for name, _ in events]


def messages(*said, **members) -> dict:
    turns = [{"role": "user", "content": said[0] if said else "hello"}, *said[1:]]
    return {"model": "chat", "max_tokens": 50, "messages": turns, **members}


def parse(body: dict, endpoint: str = "messages") -> wire.Ask:
    return wire.parse(endpoint, json.dumps(body).encode(), depth_max=64)


def asked(given="hello", **members) -> dict:
    return {"model": "chat", "input": given, **members}
