"""What is measured once a second, and its form on the wire."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

DEVICE = "device"
REPLICA = "replica"
GATEWAY = "gateway"


@dataclass(frozen=True)
class DeviceSample:
    """One device. None means that the driver does not say, never zero."""

    at: float  # epoch seconds
    uuid: str
    label: str  # node/name
    kind: str  # "gpu" | "cpu"
    memory_total_bytes: int
    memory_used_bytes: int | None = None
    utilisation_ratio: float | None = None  # 0 to 1
    power_watts: float | None = None
    temperature_celsius: float | None = None
    error: str = ""

    @property
    def subject(self) -> str:
        return f"{DEVICE}:{self.uuid}"


@dataclass(frozen=True)
class ReplicaSample:
    """One engine. Rates and means are over the time since the reading before; None is no call."""

    at: float
    replica_id: int
    label: str  # deployment#generation
    running: int = 0
    waiting: int = 0
    kv_cache_ratio: float = 0.0
    prompt_tokens_per_second: float | None = None
    cached_prompt_tokens_per_second: float | None = None
    generation_tokens_per_second: float | None = None
    preemptions_per_second: float | None = None
    iterations_per_second: float | None = None
    ttft_seconds: float | None = None
    tpot_seconds: float | None = None
    busy_ratio: float | None = None  # 0 to 1, of the time with a running call
    restarted: bool = False  # the engine's counters began anew

    @property
    def subject(self) -> str:
        return f"{REPLICA}:{self.replica_id}"


@dataclass(frozen=True)
class DeploymentLoad:
    """Calls of one deployment; those of batch apart, since nobody waits for them."""

    waiting: float = 0.0
    batch_waiting: float = 0.0
    running: int = 0
    batch_running: int = 0
    oldest_seconds: float = 0.0  # of those that wait and are not batch

    @property
    def calls(self) -> float:
        return self.waiting + self.batch_waiting + self.running + self.batch_running

    def plus(self, **more: float) -> "DeploymentLoad":
        oldest = max(self.oldest_seconds, more.pop("oldest_seconds", 0.0))
        sums = {name: getattr(self, name) + value for name, value in more.items()}
        return replace(self, oldest_seconds=oldest, **sums)


@dataclass(frozen=True)
class GatewaySample:
    """One gateway worker. What ends in _total, _sum or _count only ever grows."""

    at: float
    owner: str
    in_flight: int = 0
    waiting: int = 0
    calls_total: int = 0
    tokens_total: int = 0
    ttft_seconds_sum: float = 0.0
    ttft_count: int = 0
    tpot_seconds_sum: float = 0.0
    tpot_count: int = 0
    snapshot_age_seconds: float | None = None
    spool_events: int = 0
    calls_lately: int = 0  # that ended in the last minute
    tries_lately: int = 0  # of calls at engines, that ended in it: more is retries
    requests_lately: int = 0  # of tenants, refused ones among them
    retries_lately: int = 0  # of those, that their clients sent once more
    loads: dict[str, dict] = field(default_factory=dict)  # deployment -> DeploymentLoad

    @property
    def subject(self) -> str:
        return f"{GATEWAY}:{self.owner}"


Sample = DeviceSample | ReplicaSample | GatewaySample

_KINDS: dict[str, type] = {DEVICE: DeviceSample, REPLICA: ReplicaSample, GATEWAY: GatewaySample}


def to_dict(sample: Sample) -> dict:
    """Plain values, with the subject that says what it is a sample of."""
    return {"subject": sample.subject, **vars(sample)}


def from_dict(values: Mapping) -> Sample | None:
    """The sample, or None if it is not one. Fields of a newer release are passed over."""
    kind = _KINDS.get(str(values.get("subject", "")).split(":", 1)[0])
    if kind is None:
        return None
    known = {name.name for name in fields(kind)}
    try:
        return kind(**{name: value for name, value in values.items() if name in known})
    except TypeError:
        return None
