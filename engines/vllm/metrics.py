"""A vLLM /metrics page -> EngineLoad: the dozen names Weir needs, the other 800 lines skipped."""

import re
from collections.abc import Callable, Iterable
from math import isfinite

from engines.spec import EngineLoad

# Inter-token latency stands for the time per output token: it moves with every step, while
# vLLM's per-request histogram moves only when a call has ended.
_NAMES = (
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "prompt_tokens_total",
    "prompt_tokens_cached_total",
    "generation_tokens_total",
    "generation_tokens_created",
    "num_preemptions_total",
    "iteration_tokens_total_count",
    "time_to_first_token_seconds_sum",
    "time_to_first_token_seconds_count",
    "inter_token_latency_seconds_sum",
    "inter_token_latency_seconds_count",
)
# Each begins with plain characters: of those alone the search costs a fifteenth of what it costs
# to try each line's begin, on a page of 900 lines.
_SAMPLE = re.compile(rf"\nvllm:({'|'.join(_NAMES)})(?:\{{.*\}})? (\S+)")
# Of its front: health and metrics are not among them.
_FAILED = re.compile(r'\nhttp_requests_total\{[^\n]*status="5xx"[^\n]*\} (\S+)')
_CACHE_CONFIG = re.compile(r"\nvllm:cache_config_info\{(.*)\} ")
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def parse_metrics(text: str) -> EngineLoad:
    """One reading, over all data-parallel ranks of the engine (one sample line each)."""
    text = "\n" + text  # its first line is one too
    samples = _samples(text)

    def total(name: str) -> float:
        return sum(samples.get(name, ()))

    def extreme(choose: Callable[[Iterable[float]], float], name: str) -> float:
        return choose(samples.get(name, (0.0,)))

    return EngineLoad(
        running=int(total("num_requests_running")),
        waiting=int(total("num_requests_waiting")),
        # The fullest rank is the one that will preempt.
        kv_cache_ratio=extreme(max, "kv_cache_usage_perc"),
        kv_cache_tokens=_kv_cache_tokens(text),
        prompt_tokens=int(total("prompt_tokens_total")),
        generation_tokens=int(total("generation_tokens_total")),
        cached_prompt_tokens=int(total("prompt_tokens_cached_total")),
        preemptions=int(total("num_preemptions_total")),
        iterations=int(total("iteration_tokens_total_count")),
        ttft_seconds_sum=total("time_to_first_token_seconds_sum"),
        ttft_count=int(total("time_to_first_token_seconds_count")),
        tpot_seconds_sum=total("inter_token_latency_seconds_sum"),
        tpot_count=int(total("inter_token_latency_seconds_count")),
        failures=int(sum(filter(None, map(_number, _FAILED.findall(text))))),
        started_at_seconds=extreme(min, "generation_tokens_created"),
    )


def _samples(text: str) -> dict[str, list[float]]:
    samples: dict[str, list[float]] = {}
    for name, value in _SAMPLE.findall(text):
        if (number := _number(value)) is not None:
            samples.setdefault(name, []).append(number)
    return samples


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _kv_cache_tokens(text: str) -> int | None:
    """Capacity in tokens: what vLLM says it holds, or its blocks times their size."""
    tokens = 0
    for labels in _CACHE_CONFIG.findall(text):
        config = dict(_LABEL.findall(labels))
        said = _whole(config.get("kv_cache_size_tokens"))
        blocks, size = _whole(config.get("num_gpu_blocks")), _whole(config.get("block_size"))
        tokens += said or (blocks or 0) * (size or 0)
    return tokens or None


def _whole(value: str | None) -> int | None:
    return int(value) if value and value.isdecimal() else None
