"""Test use only: starts vLLM in a third of the time by forking where vLLM would import anew.

Same arguments as `vllm serve --model FOLDER`; chosen by WEIR_ENGINE_FAST=1 in a node's environment.
Not for service: forking a process that has threads is what vLLM avoids on a CPU with good reason,
and its OpenMP threads stay unbound.
"""

import multiprocessing
import sys

import vllm.utils.system_utils as system_utils
import vllm.v1.engine.async_llm
import vllm.v1.engine.core
import vllm.v1.engine.utils  # noqa: F401 imported once here, before the fork
from vllm.entrypoints.launchers.api_server.entry import main


def fork_context() -> multiprocessing.context.BaseContext:
    return multiprocessing.get_context("fork")


def replace_everywhere() -> None:
    """vLLM's modules bind the function by name at import, so each binding is replaced."""
    for module in list(sys.modules.values()):
        if "get_mp_context" in getattr(module, "__dict__", {}):
            module.get_mp_context = fork_context
    system_utils.get_mp_context = fork_context


if __name__ == "__main__":
    replace_everywhere()
    main()
