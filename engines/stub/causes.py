"""The stub speaks vLLM's words, so its log is read by vLLM's rules."""

from engines.vllm.causes import read_cause, read_phase

__all__ = ["read_cause", "read_phase"]
