"""The words that control and engines share: what to launch, and what was read."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class EngineSpec:
    """One launch of one engine. Ports and memory are already reserved by whoever made this."""

    replica_id: int
    generation: int
    kind: str  # "vllm" | "stub"
    version: str  # of the engine, as in "0.32.0"
    served_name: str
    weights: str  # folder with config.json, tokenizer and safetensors
    host: str
    port: int
    api_key: str
    device_kind: str  # "gpu" | "cpu"
    device_uuids: tuple[str, ...] = ()
    kv_cache_bytes: int | None = None  # fixed size on a shared or CPU device
    memory_ratio: float | None = None  # of a whole card: its budget, or what must be free
    slots: int = 16  # calls in one step
    sleep: bool = False  # it may be put to sleep; of an engine on cards
    arguments: dict[str, str | int | float | bool] = field(default_factory=dict)
    unsafe: tuple[str, ...] = ()  # what an owner allowed: pickle, trust_remote_code


@dataclass(frozen=True)
class Command:
    """What to execute: argv, and the whole environment of the process."""

    argv: tuple[str, ...]
    env: dict[str, str]


@dataclass(frozen=True)
class EngineRecord:
    """Identity of a launched process: survives restarts of whoever launched it."""

    replica_id: int
    generation: int
    pid: int
    start_ticks: int
    boot_id: str
    host: str
    port: int
    home: str


PROFILED_PERCENT = 88  # a start that has come so far has logged its memory profile


@dataclass(frozen=True)
class Phase:
    """Where a start-up stands, read from the engine's log."""

    name: str  # "starting" | "loading" | "warming" | "ready"
    percent: int
    detail: str


@dataclass(frozen=True)
class Startup:
    """What an engine's log says of its start, for each device; None is what it does not say."""

    weights_bytes: int | None = None
    consumed_bytes: int | None = None  # weights and what its libraries hold
    activation_bytes: int | None = None
    graph_bytes: int | None = None
    kv_bytes: int | None = None
    kv_tokens: int | None = None
    capture_seconds: float = 0.0  # profile, compilation, graphs


@dataclass(frozen=True)
class Cause:
    """Why an engine failed: a code from a closed set, its own words, and whether to try again."""

    code: str
    detail: str
    retry: bool


@dataclass(frozen=True)
class EngineLoad:
    """One reading of an engine's /metrics. Counters restart at zero with the engine."""

    running: int = 0
    waiting: int = 0
    kv_cache_ratio: float = 0.0  # 0 to 1
    kv_cache_tokens: int | None = None  # capacity, when the engine says it
    prompt_tokens: int = 0  # counter
    generation_tokens: int = 0  # counter
    cached_prompt_tokens: int = 0  # counter
    preemptions: int = 0  # counter
    iterations: int = 0  # counter: steps of the scheduler, of prefill too
    ttft_seconds_sum: float = 0.0  # counters of the histograms
    ttft_count: int = 0
    tpot_seconds_sum: float = 0.0
    tpot_count: int = 0
    failures: int = 0  # counter: answers of 5xx to calls
    started_at_seconds: float = 0.0  # epoch seconds; another value means the counters restarted


@dataclass(frozen=True)
class DeviceLink:
    """The best way from one device to another of its host, from "nvlink" to "system"."""

    uuid: str  # of the other
    kind: str  # as engines.topology tells it


@dataclass(frozen=True)
class GpuReading:
    """One device, now. None means the driver does not say (never zero)."""

    uuid: str
    index: int
    kind: str  # "gpu" | "cpu"
    name: str
    memory_total_bytes: int
    memory_free_bytes: int | None
    utilisation_ratio: float | None  # 0 to 1
    power_watts: float | None
    temperature_celsius: float | None
    processes: tuple[tuple[int, int | None], ...] = ()  # (pid, bytes)
    error: str = ""  # why values are missing; such a device takes nothing new
    unified_memory: bool = False  # the figures are the host's, which the card shares
    lost: bool = False  # the driver says so: it comes back with a reset or a reboot
    parent_uuid: str = ""  # the card that a MIG slice is part of; the card itself is not offered
    links: tuple[DeviceLink, ...] = ()
    compute_capability: str = ""  # "9.0"
    driver: str = ""  # version, as "580.95.05"
    cuda: str = ""  # the newest that the driver serves, as "13.0"
    energy_joules: float | None = None  # since the driver started
    ecc_corrected: int | None = None  # errors since the driver started
    ecc_uncorrected: int | None = None
    xids: tuple[int, ...] = ()  # critical errors that the driver told since the reading before


@dataclass(frozen=True)
class Install:
    """Where the making of a runtime or of weights stands; `path` when it is done."""

    state: str  # "done" | "running" | "failed"
    percent: int
    detail: str  # what is being done, or what went wrong and what to do
    path: str = ""


class BadSpec(ValueError):
    """A spec that no engine can be started from; the message says which field, and what to do."""
