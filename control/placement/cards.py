"""Common cards and the memory that their driver reports, for models that have no card yet."""

from dataclasses import dataclass

MIB = 1024**2


@dataclass(frozen=True)
class DeviceKind:
    """Devices of one name and size: those of the fleet, or a card one may buy."""

    name: str
    kind: str  # "gpu" | "cpu"
    memory_bytes: int
    in_fleet: int = 0
    is_slice: bool = False  # by MIG: no engine runs over several of them
    host_bytes: int = 0  # RAM of the host that has most; 0: not known
    on_one_host: int = 0  # whole ones, on the host that has most; 0: as many as one buys
    compute_capability: str = ""  # "8.9"; empty: not known


def _card(name: str, memory_mib: int, compute_capability: str) -> DeviceKind:
    return DeviceKind(name, "gpu", memory_mib * MIB, compute_capability=compute_capability)


COMMON = (
    _card("Tesla T4", 15_360, "7.5"),
    _card("NVIDIA L4", 23_034, "8.9"),
    _card("NVIDIA A10", 23_028, "8.6"),
    _card("NVIDIA GeForce RTX 4090", 24_564, "8.9"),
    _card("NVIDIA GeForce RTX 5090", 32_607, "12.0"),
    _card("NVIDIA A100-PCIE-40GB", 40_960, "8.0"),
    _card("NVIDIA L40S", 46_068, "8.9"),
    _card("NVIDIA A100-SXM4-80GB", 81_920, "8.0"),
    _card("NVIDIA H100 80GB HBM3", 81_559, "9.0"),
    _card("NVIDIA H200", 143_771, "9.0"),
    _card("NVIDIA B200", 183_359, "10.0"),
)


def kinds(fleet: list[DeviceKind]) -> tuple[DeviceKind, ...]:
    """Those of the fleet first; a common card that it has is not said twice."""
    named = {device.name for device in fleet}
    return (*fleet, *(card for card in COMMON if card.name not in named))
