"""The members of a call's body, by endpoint: which are allowed, of which type, in which range."""

from collections.abc import Callable
from typing import Any

from control.gateway import errors
from control.gateway.waiting.rules import TIERS

Check = Callable[[Any, str], None]


def _kind(value: Any, kinds: type | tuple[type, ...], param: str, wanted: str) -> None:
    if isinstance(value, bool) and kinds is not bool or not isinstance(value, kinds):
        raise errors.InvalidType(f"'{param}' must be {wanted}.", param=param)


def _whole(low: int, high: int) -> Check:
    def check(value: Any, param: str) -> None:
        _kind(value, int, param, "a whole number")
        if not low <= value <= high:
            raise errors.InvalidValue(
                f"'{param}' must be between {low} and {high}, not {value}.", param=param
            )

    return check


def _number(low: float, high: float) -> Check:
    def check(value: Any, param: str) -> None:
        _kind(value, (int, float), param, "a number")
        if not low <= value <= high:
            raise errors.InvalidValue(f"'{param}' must be between {low} and {high}.", param=param)

    return check


def flag(value: Any, param: str) -> None:
    _kind(value, bool, param, "true or false")


def _text(value: Any, param: str) -> None:
    _kind(value, str, param, "a string")


def _object(value: Any, param: str) -> None:
    _kind(value, dict, param, "an object")


def _list(most: int, each: Check | None = None, least: int = 0) -> Check:
    def check(value: Any, param: str) -> None:
        _kind(value, list, param, "an array")
        if not least <= len(value) <= most:
            raise errors.InvalidValue(
                f"'{param}' must have {least} to {most} elements, not {len(value)}.", param=param
            )
        for index, element in enumerate(value if each else ()):
            each(element, f"{param}[{index}]")

    return check


def _either(*options: tuple[type, Check]) -> Check:
    def check(value: Any, param: str) -> None:
        for kind, option in options:
            if isinstance(value, kind):
                return option(value, param)
        names = " or ".join(kind.__name__ for kind, _ in options)
        raise errors.InvalidType(f"'{param}' must be a {names}.", param=param)

    return check


def _service_tier(value: Any, param: str) -> None:
    _text(value, param)
    if value not in TIERS:
        raise errors.InvalidValue(
            f"'{param}' must be one of {', '.join(sorted(TIERS))}.", param=param
        )


_ROLES = frozenset({"developer", "system", "user", "assistant", "tool", "function"})


def _message(value: Any, param: str) -> None:
    _object(value, param)
    if value.get("role") not in _ROLES:
        raise errors.InvalidValue(
            f"'{param}.role' must be one of {', '.join(sorted(_ROLES))}.", param=f"{param}.role"
        )
    content = value.get("content")
    if content is not None and not isinstance(content, str | list):
        raise errors.InvalidType(
            f"'{param}.content' must be a string or an array of parts.", param=f"{param}.content"
        )


def _token_ids(value: Any, param: str) -> None:
    """A prompt as a list: of strings, of token ids, or of lists of token ids."""
    _list(4096 if value and isinstance(value[0], str | list) else 1_000_000, least=1)(value, param)
    kinds = {type(element) for element in value}
    if kinds not in ({str}, {int}, {list}):
        raise errors.InvalidType(
            f"'{param}' must hold strings, or token ids, or lists of token ids.", param=param
        )


_TOKENS = _whole(1, 10_000_000)
_STOP = _either((str, _text), (list, _list(4, _text)))
_SAMPLING: dict[str, Check] = {
    "model": _text,
    "stream": flag,
    "stream_options": _object,
    "max_tokens": _TOKENS,
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "n": _whole(1, 128),
    "stop": _STOP,
    "seed": _whole(-(2**63), 2**63 - 1),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "logit_bias": _object,
    "user": _text,
    "service_tier": _service_tier,
    # What vLLM understands beyond OpenAI, none of it able to reach past the tenant's own call.
    "top_k": _whole(-1, 2**31),
    "min_p": _number(0, 1),
    "repetition_penalty": _number(0, 10),
    "min_tokens": _whole(0, 10_000_000),
    "ignore_eos": flag,
    "stop_token_ids": _list(64, _whole(0, 2**31)),
    "include_stop_str_in_output": flag,
    "skip_special_tokens": flag,
    "spaces_between_special_tokens": flag,
    "structured_outputs": _object,
    "return_token_ids": flag,
    "response_format": _object,
}
ALLOWED: dict[str, dict[str, Check]] = {
    "chat.completions": _SAMPLING
    | {
        "messages": _list(10_000, _message, least=1),
        "max_completion_tokens": _TOKENS,
        "logprobs": flag,
        "top_logprobs": _whole(0, 20),
        "tools": _list(128, _object),
        "tool_choice": _either((str, _text), (dict, _object)),
        "parallel_tool_calls": flag,
        "reasoning_effort": _text,
        "include_reasoning": flag,
        "thinking_token_budget": _whole(-1, 10_000_000),
        "chat_template_kwargs": _object,
        "add_generation_prompt": flag,
        "continue_final_message": flag,
    },
    "completions": _SAMPLING
    | {
        "prompt": _either((str, _text), (list, _token_ids)),
        "echo": flag,
        "suffix": _text,
        "logprobs": _whole(0, 20),
        "best_of": _whole(1, 20),
    },
}
REQUIRED = {"chat.completions": ("model", "messages"), "completions": ("model", "prompt")}
# Accepted, since clients send them by default, and not passed on: they mean nothing to an engine,
# or (priority) are the platform's to set.
IGNORED = frozenset(
    {
        "metadata",
        "priority",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "store",
        "verbosity",
    }
)
STREAM_OPTIONS = frozenset({"include_usage", "continuous_usage_stats", "include_obfuscation"})
