"""The kinds of engines Weir can launch, each as six pure functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engines.arguments import Argument
from engines.spec import Cause, Command, EngineLoad, EngineSpec, Phase, Startup
from engines.stub import causes as stub_causes
from engines.stub import command as stub_command
from engines.stub import metrics as stub_metrics
from engines.stub import startup as stub_startup
from engines.vllm import causes as vllm_causes
from engines.vllm import command as vllm_command
from engines.vllm import metrics as vllm_metrics
from engines.vllm import startup as vllm_startup


@dataclass(frozen=True)
class Kind:
    build_command: Callable[[EngineSpec, Path, Mapping[str, str]], Command]
    parse_metrics: Callable[[str], EngineLoad]
    read_phase: Callable[[str], Phase]
    read_cause: Callable[[str, int | None], Cause]
    read_startup: Callable[[str], Startup]
    context_that_fits: Callable[[str], int | None]  # of a KV cache that was too small
    arguments: Mapping[str, Argument]
    elsewhere: Mapping[str, str]  # arguments that others decide, and what does
    sleeps: bool = False  # on cards, it can give their memory back and stay


KINDS: dict[str, Kind] = {
    "vllm": Kind(
        vllm_command.build_command,
        vllm_metrics.parse_metrics,
        vllm_causes.read_phase,
        vllm_causes.read_cause,
        vllm_startup.read_startup,
        vllm_causes.context_that_fits,
        vllm_command.ARGUMENTS,
        vllm_command.ELSEWHERE,
        sleeps=True,
    ),
    "stub": Kind(
        stub_command.build_command,
        stub_metrics.parse_metrics,
        stub_causes.read_phase,
        stub_causes.read_cause,
        stub_startup.read_startup,
        vllm_causes.context_that_fits,
        stub_command.ARGUMENTS,
        {},
        sleeps=True,
    ),
}
