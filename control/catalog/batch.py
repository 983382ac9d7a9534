"""The arguments that set an engine's batch: what each does, its bounds, and what refuses it."""

from collections.abc import Mapping
from dataclasses import dataclass

from control.checks import Problem

NO_BENCHMARK = "no benchmark compares values of it yet"
NOT_MEASURED = "nothing measured of this version yet"


@dataclass(frozen=True)
class Measured:
    """Of a version's launches in the last 30 days; None where nothing was measured."""

    tokens_per_second: float | None = None  # in its best minute
    calls_at_once: int | None = None  # in that minute
    tpot_seconds: float | None = None
    prompt_tokens_per_second: float | None = None  # in the minute that read most
    ttft_seconds: float | None = None  # in the worst minute


@dataclass(frozen=True)
class BatchArgument:
    """One argument; `benchmark` is the last figure that is known of it, in words."""

    name: str
    unit: str
    least: int
    most: int
    unsaid: str  # what holds where a version does not name it
    what: str
    benchmark: str = NO_BENCHMARK


@dataclass(frozen=True)
class Beside:
    """An argument of a version, its value there, and the figures that speak of it."""

    argument: BatchArgument
    value: object
    measured: str  # of this version, with this value


MAX_NUM_SEQS = BatchArgument(
    "max_num_seqs",
    "calls per step",
    1,
    1024,
    "memory.calls if promised, else twice the full-length calls that fit, 256 at most",
    "More calls in a step raise tokens per second of all and slow down each. What is beyond it "
    "waits at the gateway, in the order of priority and fairness.",
    "16 calls at once gave 6.2 times the tokens per second of one at a time "
    "(docs/benchmarks/batching.md: Gemma 3 270M, 2 cores)",
)
MAX_NUM_BATCHED_TOKENS = BatchArgument(
    "max_num_batched_tokens",
    "tokens per step",
    64,
    131_072,
    "the engine's: 2,048; 8,192 on cards of 70 GiB and more",
    "Prompts are read in pieces of this many tokens, between the steps of running calls (chunked "
    "prefill): smaller cures long prompts that stall short calls, larger brings the first token "
    "of long prompts sooner and takes more memory for activations.",
)
SPECULATIVE_TOKENS = BatchArgument(
    "speculative_tokens",
    "tokens guessed per step",
    1,
    8,
    "off",
    "With speculative_method: ngram guesses what stood in the prompt before, mtp uses the model's "
    "own extra layers. Quicker for few calls at once and text that repeats itself; slower when "
    "the device is busy anyway. Answers stay the same.",
)
BATCH_ARGUMENTS = (MAX_NUM_SEQS, MAX_NUM_BATCHED_TOKENS, SPECULATIVE_TOKENS)


def beside(arguments: Mapping, measured: Measured) -> tuple[Beside, ...]:
    """What comes of a value is seen by comparing versions that differ in it."""
    told = {
        MAX_NUM_SEQS.name: _at_once(measured),
        MAX_NUM_BATCHED_TOKENS.name: _read(measured),
        SPECULATIVE_TOKENS.name: _each(measured),
    }
    return tuple(
        Beside(one, arguments.get(one.name), told[one.name] or NOT_MEASURED)
        for one in BATCH_ARGUMENTS
    )


def _at_once(measured: Measured) -> str:
    if measured.tokens_per_second is None:
        return ""
    calls = measured.calls_at_once
    beside = f" with {calls:,} call{'s' if calls != 1 else ''} at once" if calls else ""
    return f"{measured.tokens_per_second:,.1f} tokens/s{beside}, in its best minute"


def _read(measured: Measured) -> str:
    if measured.prompt_tokens_per_second is None:
        return ""
    read = f"read {measured.prompt_tokens_per_second:,.0f} tokens of prompts a second at most"
    if measured.ttft_seconds is None:
        return read
    return f"{read}; first tokens came after {measured.ttft_seconds:.2f} s in the worst minute"


def _each(measured: Measured) -> str:
    if measured.tpot_seconds is None:
        return ""
    return f"{measured.tpot_seconds * 1000:.1f} ms for each token, in its best minute"


def batch_problems(arguments: Mapping, memory: Mapping | None) -> list[Problem]:
    """Of values whose types are right already."""
    problems = [
        Problem(
            f"arguments.{one.name}",
            f"is {one.least:,} to {one.most:,} {one.unit}, not {arguments[one.name]:,}",
        )
        for one in BATCH_ARGUMENTS
        if one.name in arguments and not one.least <= arguments[one.name] <= one.most
    ]
    return problems or [*_step(arguments), *_promised(arguments, memory), *_speculation(arguments)]


def _step(arguments: Mapping) -> list[Problem]:
    tokens, calls = arguments.get("max_num_batched_tokens"), arguments.get("max_num_seqs")
    length = arguments.get("max_model_len")
    if tokens is None:
        return []
    if calls is not None and tokens < calls:
        what = f"is less than max_num_seqs ({calls:,}): each call takes a token of each step"
        return [Problem("arguments.max_num_batched_tokens", what)]
    if arguments.get("enable_chunked_prefill") is False and length and tokens < length:
        what = (
            f"is less than max_model_len ({length:,}): without chunked prefill a prompt is read in "
            "one step; leave enable_chunked_prefill out, or raise this"
        )
        return [Problem("arguments.max_num_batched_tokens", what)]
    return []


def _promised(arguments: Mapping, memory: Mapping | None) -> list[Problem]:
    calls, promised = arguments.get("max_num_seqs"), (memory or {}).get("calls")
    if calls is None or not isinstance(promised, int) or promised <= calls:
        return []
    what = f"promises {promised:,} calls, but a step takes {calls:,} (max_num_seqs)"
    return [Problem("memory.calls", what)]


def _speculation(arguments: Mapping) -> list[Problem]:
    method, tokens = arguments.get("speculative_method"), arguments.get("speculative_tokens")
    if (method is None) == (tokens is None):
        return []
    if tokens is None:
        what = "wants speculative_tokens too: how many tokens to guess, 1 to 8"
        return [Problem("arguments.speculative_method", what)]
    what = "wants speculative_method too: ngram or mtp"
    return [Problem("arguments.speculative_tokens", what)]
