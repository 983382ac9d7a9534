"""The members of a call's body, by endpoint: which are allowed, of which type, in which range."""

from typing import Any

from control.gateway import errors
from control.gateway.bodies import checks, parts
from control.gateway.bodies.checks import Check
from control.gateway.waiting.rules import TIERS

INPUTS_MAX = 2048  # texts of one embeddings or rerank call
INPUT_TOKENS_MAX = 8192  # of one of them
INPUTS_TOKENS_MAX = 300_000  # of all together
_TOKEN_ID_MAX = 2**31 - 1
_BYTES_PER_TOKEN_MOST = 8  # what no text exceeds, so that only the surely too long is refused


def _prompt(value: Any, param: str) -> None:
    """A prompt as a list: of strings, of token ids, or of lists of token ids."""
    most = 4096 if value and isinstance(value[0], str | list) else 1_000_000
    checks.array(most, least=1)(value, param)
    kinds = set(map(type, value))
    if kinds == {int}:
        return _token_ids(value, param)
    if kinds not in ({str}, {list}):
        raise errors.InvalidType(
            f"'{param}' must hold strings, or token ids, or lists of token ids.", param=param
        )
    for at, one in enumerate(value):
        path = f"{param}[{at}]"
        _token_ids(one, path) if kinds == {list} else _some_text(one, path)
    return None


def _token_ids(value: list[Any], param: str) -> None:
    if not value:
        raise errors.InvalidValue(f"'{param}' must not be empty.", param=param)
    if set(map(type, value)) != {int}:
        raise errors.InvalidType(f"'{param}' must hold token ids.", param=param)
    if min(value) < 0 or max(value) > _TOKEN_ID_MAX:
        raise errors.InvalidValue(
            f"'{param}' must hold token ids, from 0 to {_TOKEN_ID_MAX}.", param=param
        )


def _embedded(value: Any, param: str) -> None:
    """What an embeddings call may ask for at once."""
    if isinstance(value, list):
        _prompt(value, param)
        if not isinstance(value[0], int):
            checks.array(INPUTS_MAX)(value, param)
            sizes = [_tokens_least(one, f"{param}[{at}]") for at, one in enumerate(value)]
        else:
            sizes = [_tokens_least(value, param)]
    else:
        checks.text(value, param)
        sizes = [_tokens_least(value, param)]
    if sum(sizes) > INPUTS_TOKENS_MAX:
        raise errors.InvalidValue(
            f"'{param}' has at least {sum(sizes)} tokens, at most {INPUTS_TOKENS_MAX} are allowed"
            " in one call: send fewer at once.",
            param=param,
        )


def _tokens_least(value: str | list[int], param: str) -> int:
    if not value:
        raise errors.InvalidValue(f"'{param}' must not be empty.", param=param)
    least = len(value) if isinstance(value, list) else len(value) // _BYTES_PER_TOKEN_MOST
    if least > INPUT_TOKENS_MAX:
        raise errors.InvalidValue(
            f"'{param}' has at least {least} tokens, at most {INPUT_TOKENS_MAX} are allowed.",
            param=param,
        )
    return least


def _document(value: Any, param: str) -> None:
    if isinstance(value, dict):
        return _text_document(value, param)
    return _some_text(value, param)


_some_text = checks.short(10_000_000, least=1)
_text_document = checks.shape({"text": _some_text}, required=("text",))
_texts = checks.either((str, _some_text), (list, checks.array(INPUTS_MAX, _some_text, least=1)))
_metadata = checks.shape({"user_id": checks.short(512)})
_TOKENS = checks.whole(1, 10_000_000)
_STOP_WORD = checks.short(1024, least=1)  # an empty one would end every answer at once
_STOP = checks.array(4, _STOP_WORD)
_TOP_P = checks.share(1)
_MODEL = checks.short(512, least=1)
_USER = checks.short(512)
_SERVICE_TIER = checks.one_of(*TIERS)
_OBJECTS = checks.array(10_000, checks.object_, least=1)
_ONLY_ONE = checks.refused("must be 1: ask for several choices by 'n'.", (1,))
_NOT_STORED = "is not served here: no answer is stored. Send all that belongs to the conversation."

_SAMPLING: dict[str, Check] = {
    "model": _MODEL,
    "stream": checks.flag,
    "stream_options": checks.object_,
    "max_tokens": _TOKENS,
    "temperature": checks.number(0, 2),
    "top_p": _TOP_P,
    "n": checks.whole(1, 8),
    "stop": checks.either((str, _STOP_WORD), (list, _STOP)),
    "seed": checks.whole(-(2**63), 2**63 - 1),
    "presence_penalty": checks.number(-2, 2),
    "frequency_penalty": checks.number(-2, 2),
    "logit_bias": parts.logit_bias,
    "user": _USER,
    "service_tier": _SERVICE_TIER,
    # What vLLM understands beyond OpenAI, none of it able to reach past the tenant's own call.
    "top_k": checks.whole(-1, 2**31),
    "min_p": checks.number(0, 1),
    "repetition_penalty": checks.share(10),
    "min_tokens": checks.whole(0, 10_000_000),
    "ignore_eos": checks.flag,
    "stop_token_ids": checks.array(64, checks.whole(0, _TOKEN_ID_MAX)),
    "include_stop_str_in_output": checks.flag,
    "skip_special_tokens": checks.flag,
    "spaces_between_special_tokens": checks.flag,
    "structured_outputs": parts.structured_outputs,
    "return_token_ids": checks.flag,
    "response_format": parts.response_format,
}
_CHAT: dict[str, Check] = {
    "messages": checks.array(10_000, parts.message, 1, parts.is_plain),
    "tools": checks.array(128, parts.tool),
    "chat_template_kwargs": parts.template_kwargs,
}
_COUNTED: dict[str, Check] = {
    "model": _MODEL,
    "messages": _OBJECTS,
    "system": checks.either((str, checks.text), (list, checks.array(1000, checks.object_))),
    "tools": checks.array(128, checks.object_),
    "tool_choice": checks.object_,
    "thinking": checks.object_,
    "output_config": checks.object_,
}
ALLOWED: dict[str, dict[str, Check]] = {
    "chat.completions": _SAMPLING
    | _CHAT
    | {
        "max_completion_tokens": _TOKENS,
        "logprobs": checks.flag,
        "top_logprobs": checks.whole(0, 20),
        "tool_choice": parts.tool_choice,
        "parallel_tool_calls": checks.flag,
        "reasoning_effort": checks.short(32),
        "include_reasoning": checks.flag,
        "thinking_token_budget": checks.whole(-1, 10_000_000),
        "add_generation_prompt": checks.flag,
        "continue_final_message": checks.flag,
    },
    "completions": _SAMPLING
    | {
        "prompt": checks.either((str, _some_text), (list, _prompt)),
        "echo": checks.flag,
        "suffix": checks.text,
        "logprobs": checks.whole(0, 20),
        "best_of": _ONLY_ONE,
    },
    "embeddings": {
        "model": _MODEL,
        "input": _embedded,
        "encoding_format": checks.one_of("float", "base64"),
        "dimensions": checks.whole(1, 65_536),
        "truncate_prompt_tokens": checks.whole(-1, 10_000_000),
        "user": _USER,
    },
    "rerank": {
        "model": _MODEL,
        "query": _some_text,
        "documents": checks.array(INPUTS_MAX, _document, least=1),
        "top_n": checks.whole(1, INPUTS_MAX),
        "truncate_prompt_tokens": checks.whole(-1, 10_000_000),
        "user": _USER,
    },
    "score": {
        "model": _MODEL,
        "text_1": _texts,
        "text_2": _texts,
        "truncate_prompt_tokens": checks.whole(-1, 10_000_000),
        "user": _USER,
    },
    "responses": {
        "model": _MODEL,
        "input": checks.either((str, checks.text), (list, _OBJECTS)),
        "instructions": checks.text,
        "stream": checks.flag,
        "stream_options": checks.shape({"include_obfuscation": checks.flag}),
        "max_output_tokens": _TOKENS,
        "temperature": checks.number(0, 2),
        "top_p": _TOP_P,
        "top_logprobs": checks.whole(0, 20),
        "tools": checks.array(128, checks.object_),
        "tool_choice": checks.either((str, checks.text), (dict, checks.object_)),
        "parallel_tool_calls": checks.flag,
        "reasoning": checks.shape(
            dict.fromkeys(("effort", "summary", "generate_summary"), checks.short(32))
        ),
        "text": checks.shape({"format": checks.object_, "verbosity": checks.short(32)}),
        "include": checks.array(16, checks.text),
        "metadata": checks.object_,
        "service_tier": _SERVICE_TIER,
        "user": _USER,
        "truncation": checks.one_of("disabled"),
        "store": checks.refused(_NOT_STORED, (False,)),
        "background": checks.refused("is not served here: wait for the answer.", (False,)),
        "previous_response_id": checks.refused(_NOT_STORED),
        "conversation": checks.refused(_NOT_STORED),
    },
    "messages": _COUNTED
    | {
        "max_tokens": _TOKENS,
        "stream": checks.flag,
        "stop_sequences": _STOP,
        "temperature": checks.number(0, 1),
        "top_p": _TOP_P,
        "top_k": checks.whole(-1, 2**31),
        "metadata": _metadata,
        "service_tier": checks.one_of("auto", "standard_only"),
    },
    "messages.count_tokens": _COUNTED,
}
REQUIRED = {
    "chat.completions": ("model", "messages"),
    "completions": ("model", "prompt"),
    "embeddings": ("model", "input"),
    "rerank": ("model", "query", "documents"),
    "score": ("model", "text_1", "text_2"),
    "responses": ("model", "input"),
    "messages": ("model", "max_tokens", "messages"),
    "messages.count_tokens": ("model", "messages"),
}
# Accepted, since clients send them by default, and not passed on: they mean nothing to an engine.
IGNORED = frozenset(
    {
        "cache_control",
        "max_tokens_per_doc",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "return_documents",
        "safety_identifier",
        "store",
        "verbosity",
    }
)
# Whose urgency, whose cache, which engine's memory: the platform's to set, whatever a route adds.
OURS = frozenset({"cache_salt", "kv_transfer_params", "priority", "request_id", "vllm_xargs"})
STREAM_OPTIONS = frozenset({"include_usage", "continuous_usage_stats", "include_obfuscation"})
