"""From the cause of a failure to its cure, or to why there is none. Pure."""

from dataclasses import dataclass

from control.placement.changes import Changes

CURES_MAX = 4  # of one cause and version: what four did not cure, a fifth will not
CONTEXT_LEAST = 128
SEQS_LEAST, TOKENS_LEAST = 1, 256
MORE_PERCENT = 25
GUARD_SECONDS = 600
AVOID_SECONDS = 600  # another device, while somebody else's processes hold the one
OCCUPIED_BEFORE_AVOIDED = 2  # a predecessor may still be giving its memory back

SERVING = "memory_short_while_serving"
CONTEXT = "kv_cache_too_small"
OCCUPIED = "device_occupied"
HOST = "host_memory_exhausted"
MORE = ("cache_blocks_short", "weights_too_large")
SHRINK = (SERVING, "memory_short_at_start")
CURABLE = frozenset({CONTEXT, OCCUPIED, HOST, *MORE, *SHRINK})


@dataclass(frozen=True)
class Failure:
    cause: str
    slots: int = 0  # as it was launched
    step_tokens: int = 0
    context_fits: int | None = None  # by the engine's own estimate
    shorter_allowed: bool = False
    memory_percent: int = 0  # already booked beyond the estimate
    cured: int = 0  # overrides in force for this cause
    in_a_row: int = 1  # failures of this cause
    devices: tuple[int, ...] = ()
    host_engines: int = 1  # that lived on its host, itself included


@dataclass(frozen=True)
class Cure:
    changes: Changes
    reason: str


@dataclass(frozen=True)
class NoCure:
    reason: str


def cure(failure: Failure) -> Cure | NoCure:
    """What the next launch does otherwise."""
    if failure.cured >= CURES_MAX:
        return NoCure(f"was cured {failure.cured} times and came back")
    if failure.cause == CONTEXT:
        return _shorter(failure)
    if failure.cause in MORE:
        return _more(failure, "it wants more memory, on the same device or a larger one")
    if failure.cause in SHRINK:
        return _smaller_steps(failure)
    if failure.cause == HOST:
        return _fewer_engines(failure)
    if failure.cause == OCCUPIED and failure.in_a_row >= OCCUPIED_BEFORE_AVOIDED:
        why = f"others hold its memory: avoided for {AVOID_SECONDS // 60} min"
        return Cure(Changes(avoid=failure.devices), why)
    return NoCure("passes by itself, or needs another version")


def _shorter(failure: Failure) -> Cure | NoCure:
    fits = failure.context_fits
    if fits is None or fits < CONTEXT_LEAST:
        return NoCure(f"no context of {CONTEXT_LEAST} tokens fits: give it more memory")
    if not failure.shorter_allowed:
        return NoCure(
            f"a context of {fits:,} tokens would fit: set max_model_len or allow_shorter_context, "
            "or give it more memory"
        )
    why = f"its KV cache holds {fits:,} tokens, and the deployment allows a shorter context"
    return Cure(Changes(max_model_len=fits), why)


def _more(failure: Failure, why: str) -> Cure:
    return Cure(Changes(memory_percent=failure.memory_percent + MORE_PERCENT), why)


def _smaller_steps(failure: Failure) -> Cure | NoCure:
    """Calls and tokens of a step by a quarter; each call takes a token of a step, at least."""
    seqs = max(SEQS_LEAST, failure.slots * 3 // 4)
    tokens = max(TOKENS_LEAST, seqs, failure.step_tokens * 3 // 4)
    if seqs >= failure.slots and tokens >= failure.step_tokens:
        return NoCure("its steps are as small as they get: it needs more memory")
    why = "its largest step took more memory than there was: smaller steps, fewer calls at once"
    return Cure(Changes(max_num_seqs=seqs, max_num_batched_tokens=tokens), why)


def _fewer_engines(failure: Failure) -> Cure:
    """Never a smaller KV cache: what ran out is the host's memory, not the device's."""
    if failure.host_engines > 1:
        why = f"{failure.host_engines} engines were more than its host's memory holds"
        return Cure(Changes(host_engines_max=failure.host_engines - 1), why)
    return _more(failure, "alone on its host it took more than was booked")
