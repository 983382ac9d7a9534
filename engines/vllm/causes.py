"""A vLLM log -> the phase of a start-up, or the cause of an end (signatures of vLLM 0.32)."""

import re

from engines.spec import Cause, Phase

READY = "Application startup complete."

# (percent, phase, signature, what to show). The furthest signature found is where it stands.
_PHASES = (
    (25, "starting", re.compile(r"version \d+\.\d+\.\d+|non-default args:"), "reads its settings"),
    (30, "starting", re.compile(r"Resolved architecture: (\S+)"), "architecture {0}"),
    (40, "starting", re.compile(r"Initializing a V1 LLM engine"), "starts the engine core"),
    (55, "starting", re.compile(r"world_size=(\d+) rank=\d+"), "starts {0} worker(s)"),
    (60, "loading", re.compile(r"Starting to load model"), "loads the weights"),
    (80, "loading", re.compile(r"Loading weights took ([\d.]+) seconds"), "weights in {0} s"),
    (
        85,
        "warming",
        re.compile(r"Warming up model|torch\.compile takes|Graph capt"),
        "warms up",
    ),
    (88, "warming", re.compile(r"Available KV cache memory: (\S+ \S+)"), "KV cache of {0}"),
    (90, "warming", re.compile(r"KV cache size: ([\d,]+) tokens"), "KV cache of {0} tokens"),
    (92, "warming", re.compile(r"init engine .*took ([\d.]+) s"), "engine core up in {0} s"),
    (97, "warming", re.compile(r"Starting vLLM server on"), "opens its port"),
    (100, "ready", re.compile(re.escape(READY)), "serves"),
)
_SHARDS = re.compile(r"checkpoint shards:\s+(\d+)% Completed \| (\d+/\d+)")
_SHARDS_FROM = 60  # to 80

# (code, signature, worth another try?). What is found first in the log is the root cause: vLLM's
# last line ("Engine core initialization failed") and its exit code (0 after a crash) say nothing.
_CAUSES = (
    ("bad_arguments", r"error: (?:unrecognized arguments|argument ).*", False),
    ("port_taken", r"\[Errno 98\] .*[Aa]ddress already in use.*", True),
    ("weights_missing", r"HFValidationError: .*|Invalid repository ID or local directory.*", False),
    ("model_unsupported", r"The checkpoint you are trying to load has model type .*", False),
    ("model_unsupported", r"Model architectures .* are not supported.*", False),
    ("weights_corrupt", r"SafetensorError: .*", False),
    ("quantization_unsupported", r"Unknown quantization method: .*", False),
    ("quantization_unsupported", r"Cannot find the config file for \w+.*", False),
    ("hardware_unsupported", r"_C::\w+\(\) expected at most .*", False),
    ("hardware_unsupported", r"Failed to infer device type.*", False),
    ("hardware_unsupported", r"Not enough allowed NUMA nodes.*", False),
    ("context_too_long", r"User-specified max_model_len .* is greater than .*", False),
    ("kv_cache_too_small", r"To serve at least one request with the model's max seq len.*", False),
    # All that it was given went to weights and the largest step: it wants more, not less.
    ("cache_blocks_short", r"No available memory for the cache blocks.*", False),
    ("device_occupied", r"Free memory on device .* is less than desired.*", True),
    ("device_occupied", r"Available memory on node .* less than requested memory.*", True),
    ("weights_too_large", r"Failed to load model - not enough GPU memory.*", False),
    ("memory_short_at_start", r"CUDA out of memory occurred when warming up.*", False),
    (
        "gpu_lost",
        r"(?:CUDA error: (?:uncorrectable \w+ error|all CUDA-capable devices are busy"
        r"|no CUDA-capable device)|GPU is lost|fallen off the bus|NVRM: Xid).*",
        True,
    ),
    ("disk_full", r".*No space left on device.*", False),
)
_SIGNATURES = tuple((code, re.compile(pattern), retry) for code, pattern, retry in _CAUSES)
_OUT_OF_MEMORY = re.compile(
    r"torch\.(?:cuda\.)?OutOfMemoryError.*|CUDA out of memory.*"
    r"|DefaultCPUAllocator: can't allocate memory.*|MemoryError.*"
)
_LOADS, _LOADED = "Starting to load model", re.compile(r"Loading weights took|Model loading took")
_FITS = re.compile(r"estimated maximum model length is ([\d,]+)")
_SERVED = re.compile(rf"{re.escape(READY)}|EngineCore encountered a fatal error")
_DIED = re.compile(r"(?:Worker proc \S+|EngineCore\S*) died unexpectedly.*|EngineDeadError.*")
# Not on lines of advice, which name errors that may come: of few open files, at every start.
_ANY_ERROR = re.compile(
    r"^(?!(?:\(\w+ pid=\d+\) )?(?:WARNING|INFO|DEBUG) ).*?(\b\w*(?:Error|Exception): .+)", re.M
)
_PREFIX = re.compile(r"^\(\w+ pid=\d+\) (?:[A-Z]+ \S+ \S+ \[[^\]]*\] )?")
DETAIL_CHARACTERS_MAX = 600


def read_phase(log: str) -> Phase:
    """The furthest point that the log, or its tail, tells of."""
    found = [
        Phase(name, percent, detail.format(*match.groups()))
        for percent, name, signature, detail in _PHASES
        if (match := signature.search(log))
    ]
    begun = Phase("starting", 5, "imports its libraries")
    return max([begun, *_read_shards(log), *found], key=lambda phase: phase.percent)


def read_cause(log: str, exit_code: int | None) -> Cause:
    """Why the engine ended. `exit_code` is None when the process was nobody's child."""
    found = [
        (match.start(), Cause(code, _detail(match.group()), retry))
        for code, signature, retry in _SIGNATURES
        if (match := signature.search(log))
    ]
    if match := _OUT_OF_MEMORY.search(log):
        found.append((match.start(), _out_of_memory(log, match)))
    if found:
        return min(found, key=lambda one: one[0])[1]
    if match := _DIED.search(log):
        return Cause("worker_died", _detail(match.group()), retry=True)
    return _unknown(log, exit_code)


def context_that_fits(detail: str) -> int | None:
    """Tokens of context that a KV cache found too small would hold, as vLLM estimates it."""
    found = _FITS.search(detail)
    return int(found.group(1).replace(",", "")) if found else None


def _out_of_memory(log: str, match: re.Match) -> Cause:
    """The same start would fail the same way; under load a restart with less of it helps."""
    before = log[: match.start()]
    if _SERVED.search(log):
        return Cause("memory_short_while_serving", _detail(match.group()), retry=True)
    loads = _LOADS in before and not _LOADED.search(before)
    code = "weights_too_large" if loads else "memory_short_at_start"
    return Cause(code, _detail(match.group()), retry=False)


def _read_shards(log: str) -> list[Phase]:
    shards = _SHARDS.findall(log)[-1:]
    return [
        Phase("loading", _SHARDS_FROM + int(done) // 5, f"loads the weights, shard {count}")
        for done, count in shards
    ]


def _unknown(log: str, exit_code: int | None) -> Cause:
    if found := _ANY_ERROR.search(log):
        return Cause("crashed", _detail(found.group(1)), retry=True)
    if exit_code is not None and exit_code < 0:
        return Cause("killed", f"ended by signal {-exit_code}", retry=True)
    said = "an unknown exit code" if exit_code is None else f"exit code {exit_code}"
    lines = [line for line in log.splitlines() if line.strip()]
    last = f"; its last line: {_PREFIX.sub('', lines[-1])}" if lines else "; it wrote no log"
    return Cause("exited", _detail(f"ended with {said}{last}"), retry=True)


def _detail(text: str) -> str:
    return _PREFIX.sub("", text.strip())[:DETAIL_CHARACTERS_MAX]
