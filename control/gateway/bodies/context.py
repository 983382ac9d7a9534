"""A scope's own ceiling on context: what surely exceeds it is refused, engines judge the rest."""

from typing import Any, NamedTuple

from control.gateway import errors
from control.gateway.bodies.wire import Ask

# Where a call's prompt is, as tenants name it.
_PROMPTS = {
    "chat.completions": "messages",
    "completions": "prompt",
    "embeddings": "input",
    "rerank": "documents",
    "score": "text_2",
    "responses": "input",
    "messages": "messages",
    "messages.count_tokens": "messages",
}
_BESIDE = {"rerank": "query", "score": "text_1"}  # what is read together with it
_BYTES_PER_TOKEN_MOST = 8  # of a whole text; no language or code of note packs more into a token


class TooLong(NamedTuple):
    """A prompt of so many tokens at least, an answer of so many at most, and their ceiling."""

    prompt_tokens: int
    answer_tokens: int
    tokens_max: int


def judge(ask: Ask, tokens_max: int | None) -> None:
    """Raises if the prompt, with the answer that was asked for, cannot fit."""
    if tokens_max is None or ask.endpoint == "tokenize":
        return
    answer = ask.max_tokens or int(ask.generates)
    if ask.input_estimate + answer <= tokens_max:
        return  # the usual case, without a look at the texts
    prompt = prompt_tokens_least(ask)
    if prompt + answer <= tokens_max:
        return
    asked = f", and '{ask.limit_name}' is {ask.max_tokens}" if ask.max_tokens else ""
    raise errors.ContextTooLong(
        f"The maximum context length here is {tokens_max} tokens, prompt and answer together."
        f" Your prompt has at least {prompt}{asked}. Shorten the prompt, or ask for less.",
        param=prompt_member(ask),
        why=TooLong(prompt, answer, tokens_max),
    )


def prompt_member(ask: Ask) -> str:
    """Where to shorten what was too long: of two texts, the longer one."""
    name, fields = _PROMPTS[ask.called], ask.fields
    other = _BESIDE.get(ask.called)
    if other is None:
        return name
    return other if _longest(fields[other]) > _longest(fields[name]) else name


def _longest(texts: str | list[Any]) -> int:
    return max([len(one if isinstance(one, str) else one["text"]) for one in _texts(texts)])


def prompt_tokens_least(ask: Ask) -> int:
    """Only plain text and token ids count: who knows how many tokens an image becomes."""
    fields = ask.fields
    if "messages" in fields:
        return _least("".join(map(_text_of, fields["messages"])))
    prompt = fields[_PROMPTS[ask.called]]
    if ask.called == "score":
        return max(_least(one) for text in (fields["text_1"], prompt) for one in _texts(text))
    if ask.called == "rerank":
        query = _least(fields["query"])
        return query + max([_least(one if isinstance(one, str) else one["text"]) for one in prompt])
    if isinstance(prompt, list) and not isinstance(prompt[0], int):
        return max(map(_least, prompt))  # each has a context of its own
    return _least(prompt)


def _texts(given: str | list[Any]) -> list[Any]:
    return [given] if isinstance(given, str) else given


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join([text for text in texts if isinstance(text, str)])


def _least(prompt: str | list[int]) -> int:
    if isinstance(prompt, list):
        return len(prompt)
    # A run of blanks may be one token, however long it is.
    return len(" ".join(prompt.split()).encode()) // _BYTES_PER_TOKEN_MOST
