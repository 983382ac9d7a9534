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


def _card(name: str, memory_mib: int) -> DeviceKind:
    return DeviceKind(name, "gpu", memory_mib * MIB)


COMMON = (
    _card("Tesla T4", 15_360),
    _card("NVIDIA L4", 23_034),
    _card("NVIDIA A10", 23_028),
    _card("NVIDIA GeForce RTX 4090", 24_564),
    _card("NVIDIA GeForce RTX 5090", 32_607),
    _card("NVIDIA A100-PCIE-40GB", 40_960),
    _card("NVIDIA L40S", 46_068),
    _card("NVIDIA A100-SXM4-80GB", 81_920),
    _card("NVIDIA H100 80GB HBM3", 81_559),
    _card("NVIDIA H200", 143_771),
    _card("NVIDIA B200", 183_359),
)


def kinds(fleet: list[DeviceKind]) -> tuple[DeviceKind, ...]:
    """Those of the fleet first; a common card that it has is not said twice."""
    named = {device.name for device in fleet}
    return (*fleet, *(card for card in COMMON if card.name not in named))
