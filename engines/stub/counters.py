"""What the stub has done, as vLLM's /metrics page tells it."""

from bisect import bisect_left
from dataclasses import dataclass, field

BUCKETS_SECONDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)


@dataclass
class Histogram:
    sum: float = 0.0
    count: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_SECONDS) + 1))

    def observe(self, seconds: float) -> None:
        self.sum += seconds
        self.count += 1
        self.buckets[bisect_left(BUCKETS_SECONDS, seconds)] += 1


@dataclass
class Counters:
    model: str
    started_at: float  # epoch seconds
    kv_cache_tokens: int
    running: int = 0
    waiting: int = 0
    held_tokens: int = 0  # of running calls: prompt and answer so far
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    aborted: int = 0  # vLLM does not count these as finished; /stub/seen does
    failed: int = 0  # answers of 5xx
    finished: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("stop", "length", "abort", "error"), 0)
    )
    ttft: Histogram = field(default_factory=Histogram)
    itl: Histogram = field(default_factory=Histogram)

    def page(self) -> str:
        lines = [
            *self._gauge("num_requests_running", self.running),
            *self._gauge("num_requests_waiting", self.waiting),
            *self._gauge("kv_cache_usage_perc", self.held_tokens / self.kv_cache_tokens),
            *self._counter("prompt_tokens", self.prompt_tokens),
            *self._counter("prompt_tokens_cached", self.cached_tokens),
            *self._counter("prefix_cache_queries", self.prompt_tokens),
            *self._counter("prefix_cache_hits", self.cached_tokens),
            *self._counter("generation_tokens", self.generation_tokens),
            *self._counter("num_preemptions", self.preemptions),
            *self._finishes(),
            *self._histogram("time_to_first_token_seconds", self.ttft),
            *self._histogram("inter_token_latency_seconds", self.itl),
            *self._histogram("request_time_per_output_token_seconds", self.itl),
            *self._cache_config(),
            *self._failures(),
        ]
        return "\n".join(lines) + "\n"

    def _labels(self, **more: str) -> str:
        pairs = {"engine": "0", "model_name": self.model} | more
        return "{" + ",".join(f'{name}="{value}"' for name, value in pairs.items()) + "}"

    def _gauge(self, name: str, value: float) -> list[str]:
        return [f"# TYPE vllm:{name} gauge", f"vllm:{name}{self._labels()} {float(value)}"]

    def _counter(self, name: str, value: int) -> list[str]:
        return [
            f"# TYPE vllm:{name}_total counter",
            f"vllm:{name}_total{self._labels()} {float(value)}",
            f"vllm:{name}_created{self._labels()} {self.started_at}",
        ]

    def _finishes(self) -> list[str]:
        return ["# TYPE vllm:request_success_total counter"] + [
            f"vllm:request_success_total{self._labels(finished_reason=reason)} {float(count)}"
            for reason, count in self.finished.items()
        ]

    def _failures(self) -> list[str]:
        labels = '{handler="/v1/completions",method="POST",status="5xx"}'
        return [
            "# TYPE http_requests_total counter",
            f"http_requests_total{labels} {self.failed}.0",
        ]

    def _histogram(self, name: str, histogram: Histogram) -> list[str]:
        lines, below = [f"# TYPE vllm:{name} histogram"], 0
        edges = [*map(str, BUCKETS_SECONDS), "+Inf"]
        for edge, count in zip(edges, histogram.buckets, strict=True):
            below += count
            lines.append(f"vllm:{name}_bucket{self._labels(le=edge)} {float(below)}")
        return [
            *lines,
            f"vllm:{name}_count{self._labels()} {float(histogram.count)}",
            f"vllm:{name}_sum{self._labels()} {histogram.sum}",
        ]

    def _cache_config(self) -> list[str]:
        labels = self._labels(
            block_size="16",
            kv_cache_size_tokens=str(self.kv_cache_tokens),
            num_gpu_blocks=str(self.kv_cache_tokens // 16),
        )
        return ["# TYPE vllm:cache_config_info gauge", f"vllm:cache_config_info{labels} 1.0"]
