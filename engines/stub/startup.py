"""The stub speaks vLLM's words, so what it says of its start is read by vLLM's rules."""

from engines.vllm.startup import read_startup

__all__ = ["read_startup"]
