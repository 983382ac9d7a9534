"""Whether an answer whose engine was lost can be gone on with elsewhere, and how (pure)."""

import re
from typing import Any, NamedTuple

import msgspec

from control.gateway.bodies.wire import Ask
from control.gateway.streams.ids import TokenIds
from control.gateway.streams.relay import Reader
from control.routes.snapshot import ReplicaInfo, RouteInfo

ENGINES = frozenset({"vllm", "stub"})  # that tell token ids when asked to
# What an engine keeps a state of that token ids do not hold, or what reads an answer as a whole.
_BARS = frozenset(
    {
        "best_of",
        "echo",
        "functions",
        "logprobs",
        "reasoning_effort",
        "response_format",
        "structured_outputs",
        "suffix",
        "thinking_token_budget",
        "tools",
        "top_logprobs",
    }
)
_PENALTIES = (("presence_penalty", 0), ("frequency_penalty", 0), ("repetition_penalty", 1))
_CARRIED = (
    "cache_salt",
    "ignore_eos",
    "include_stop_str_in_output",
    "logit_bias",
    "min_p",
    "return_token_ids",
    "seed",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "stop",
    "stop_token_ids",
    "temperature",
    "top_k",
    "top_p",
)


_COMPLETION_TOKENS = 16  # that an engine makes of one which names no number
_CONTEXT = re.compile(r"cannot be greater than max_model_len=(\d{1,9})")


class Rest(NamedTuple):
    """What is left to ask for. `max_tokens` None is as many as the engine's context holds."""

    ask: Ask
    max_tokens: int | None


def asks_ids(ask: Ask, route: RouteInfo, engine: str, stop: tuple[str, ...]) -> bool:
    """Whether the engine is asked for token ids, so that another one could go on."""
    return (
        ask.stream
        and engine in ENGINES
        and route.on_replica_loss == "continue"
        and why_not(ask, stop) is None
    )


def why_not(ask: Ask, stop: tuple[str, ...]) -> str | None:
    """Why this call could not be gone on with, whatever its answer; `stop` is the engine's."""
    if ask.choices != 1:
        return "it has more than one choice"
    if any(len(word) > 1 for word in stop):
        return "its engine holds text back, for a stop word"  # always, as long as the longest
    if any(_has_media(message) for message in ask.fields.get("messages", ())):
        return "it has more than text"
    return _member_against(ask.fields)


def _member_against(fields: dict[str, Any]) -> str | None:
    for name in fields.keys() & _BARS:
        if fields[name] is not False and fields[name] != [] and not _is_plain(name, fields[name]):
            return f"it has {name}"
    for name, neutral in _PENALTIES:
        if fields.get(name, neutral) != neutral:
            return f"it has {name}"
    if "seed" in fields and fields.get("temperature", 1) != 0:
        return "it has a seed and a temperature"
    return "its reasoning is hidden" if fields.get("include_reasoning") is False else None


def rest_of(ask: Ask, reader: Reader, max_tokens: int | None) -> Rest | None:
    """None if what came of the answer cannot be gone on from."""
    ids = reader.token_ids
    if ids is None or not _is_usable(ids) or reader.finished or reader.holds_back:
        return None
    made = ids.count
    usage = reader.usage()
    if usage is None or usage.output != made:
        return None  # tokens came that we did not see, or the other way round
    fields = {name: ask.fields[name] for name in _CARRIED if name in ask.fields}
    fields["prompt"] = msgspec.Raw(b"[%b%b]" % (ids.prompt, bytes(ids.made)))
    fields["stream"] = True
    if least := ask.fields.get("min_tokens"):
        fields["min_tokens"] = max(least - made, 0)
    most = (
        _COMPLETION_TOKENS if max_tokens is None and ask.endpoint == "completions" else max_tokens
    )
    left = None if most is None else most - made
    if left is not None and left <= 0:
        return None  # its last token has come, only its end has not
    return Rest(msgspec.structs.replace(ask, endpoint="completions", fields=fields), left)


def context_of(refusal: str) -> int | None:
    """The context that an engine names when it was asked for more tokens than that."""
    found = _CONTEXT.search(refusal)
    return int(found.group(1)) if found else None


def is_same(one: ReplicaInfo, other: ReplicaInfo) -> bool:
    """Whether the other runs what the one ran: the same version of the same model."""
    if one.version_id == other.version_id:
        return other.engine in ENGINES
    named = bool(one.model and one.version) and other.engine in ENGINES
    return named and (one.model, one.version) == (other.model, other.version)


def _is_usable(ids: TokenIds) -> bool:
    return ids.usable and bool(ids.prompt) and bool(ids.made)


def _is_plain(name: str, value: Any) -> bool:
    return name == "response_format" and isinstance(value, dict) and value.get("type") == "text"


def _has_media(message: dict[str, Any]) -> bool:
    content = message.get("content")
    if not isinstance(content, list):
        return False
    return any(not isinstance(part, dict) or part.get("type") != "text" for part in content)
