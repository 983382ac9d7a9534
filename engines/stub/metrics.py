"""The stub's /metrics page has vLLM's names, so it is read by vLLM's rules."""

from engines.vllm.metrics import parse_metrics

__all__ = ["parse_metrics"]
