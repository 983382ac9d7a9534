"""One call on the stub: checked as vLLM checks it, and what will be made of it."""

import json
from dataclasses import dataclass
from typing import Any

from engines.stub.chunks import error_body
from engines.stub.script import Script

CHOICES_MAX = 128
ANSWER_IDS = 1_000_000  # of an answer's first token; the others follow
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@dataclass
class BadCall(Exception):
    """vLLM's refusal of a request, as status and error body."""

    status: int
    body: dict[str, Any]


@dataclass(frozen=True)
class Call:
    path: str
    stream: bool
    include_usage: bool
    running_usage: bool
    choices: int
    tokens_max: int | None
    prompt_tokens: int
    prompt_ids: tuple[int, ...] | None = None  # if token ids were asked for
    begun: int = 0  # tokens of an answer that the prompt ends with already

    @property
    def chat(self) -> bool:
        return self.path == CHAT


def read_call(path: str, body: bytes, served_name: str, context_tokens: int) -> Call:
    given = read_json(body)
    wanted = "messages" if path == CHAT else "prompt"
    if wanted not in given:
        said = f"1 validation error:\n  {{'type': 'missing', 'loc': 'body.{wanted}'}}"
        raise BadCall(400, error_body(400, said, "Bad Request", f"body.{wanted}"))
    if (model := given.get("model", served_name)) != served_name:
        said = f"The model `{model}` does not exist. Valid aliases: {served_name}."
        raise BadCall(404, error_body(404, said, "NotFoundError", "model"))
    tokens_max = given.get("max_completion_tokens", given.get("max_tokens"))
    prompt_tokens = count_tokens(given[wanted])
    _check_context(prompt_tokens, tokens_max, context_tokens)
    options = given.get("stream_options") or {}
    return Call(
        path=path,
        stream=bool(given.get("stream")),
        include_usage=bool(options.get("include_usage")),
        running_usage=bool(options.get("continuous_usage_stats")),
        choices=max(1, min(int(given.get("n") or 1), CHOICES_MAX)),
        tokens_max=tokens_max,
        prompt_tokens=prompt_tokens,
        prompt_ids=ids_of(given[wanted], prompt_tokens) if given.get("return_token_ids") else None,
        begun=_begun(given[wanted]),
    )


def ids_of(content: Any, count: int) -> tuple[int, ...]:
    """Of a prompt: those it was given as, or any that no token of an answer has."""
    if isinstance(content, list) and all(isinstance(one, int) for one in content):
        return tuple(content)
    return tuple(range(1, count + 1))


def answer_id(position: int) -> int:
    return ANSWER_IDS + position


def _begun(content: Any) -> int:
    """A prompt of token ids that ends with the beginning of an answer is gone on with."""
    count = 0
    for one in reversed(content if isinstance(content, list) else ()):
        if not isinstance(one, int) or one < ANSWER_IDS:
            break
        count += 1
    return count


def count_tokens(content: Any) -> int:
    """A word is a token; an empty prompt has one, as with a model's own first token."""
    return max(1, _words(content))


def _words(content: Any) -> int:
    match content:
        case str():
            return len(content.split())
        case list():
            return sum(1 if isinstance(part, int) else _words(part) for part in content)
        case dict():
            return _words(content.get("content") or content.get("text") or "")
    return 0


def read_json(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body)
    except ValueError as error:
        said = f"1 validation error:\n  {{'type': 'json_invalid', 'loc': 'body.1'}} {error}"
        raise BadCall(400, error_body(400, said, "Bad Request", "body.1")) from error
    if not isinstance(given, dict):
        raise BadCall(400, error_body(400, "the body must be an object", "Bad Request", "body"))
    return given


def _check_context(prompt_tokens: int, tokens_max: Any, context_tokens: int) -> None:
    if isinstance(tokens_max, int) and tokens_max > context_tokens:
        said = (
            f"max_tokens={tokens_max} cannot be greater than max_model_len={context_tokens}. "
            f"Please request fewer output tokens. (parameter=max_tokens, value={tokens_max})"
        )
        raise BadCall(400, error_body(400, said, "BadRequestError", "max_tokens"))
    if prompt_tokens > context_tokens:
        said = (
            f"This model's maximum context length is {context_tokens} tokens. However, your "
            f"prompt contains at least {context_tokens + 1} input tokens, which exceeds this "
            "limit even without any output tokens. Please reduce the length of the input prompt. "
            f"(parameter=input_tokens, value={context_tokens + 1})"
        )
        raise BadCall(400, error_body(400, said, "BadRequestError", "input_tokens"))


@dataclass(frozen=True)
class Plan:
    """What will be made of a call, fixed before the first byte."""

    texts: tuple[str, ...]  # one token each, the same for every choice
    finish: str
    ttft_seconds: float
    token_seconds: float
    script: Script


def plan_of(call: Call, script: Script, defaults: Script, context_tokens: int) -> Plan:
    words = script.text.split() if script.text is not None else None
    count = first_of(script.tokens, defaults.tokens)
    said = words or [f"t{number}" for number in range(1, count + 1)]
    # Each token but the first brings the space before it, as a tokenizer's do.
    whole = [f" {text}" if number else text for number, text in enumerate(said)]
    texts = whole[call.begun :] or [""]
    room = max(1, context_tokens - first_of(script.prompt_tokens, call.prompt_tokens))
    limit = min(room, call.tokens_max or room)
    return Plan(
        texts=tuple(texts[:limit]),
        finish="length" if len(texts) > limit else "stop",
        ttft_seconds=first_of(script.ttft_seconds, defaults.ttft_seconds),
        token_seconds=first_of(script.token_seconds, defaults.token_seconds),
        script=script,
    )


def first_of(*values: Any) -> Any:
    return next(value for value in values if value is not None)
