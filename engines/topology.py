"""How the cards of a host are joined: what tensor-parallel groups are chosen by."""

from itertools import combinations

import pynvml

from engines.nvml import Handle, value
from engines.spec import DeviceLink

_KINDS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "pcie_switch",  # on one board
    pynvml.NVML_TOPOLOGY_SINGLE: "pcie_switch",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "pcie_switches",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "host_bridge",
    pynvml.NVML_TOPOLOGY_NODE: "numa_node",
    pynvml.NVML_TOPOLOGY_SYSTEM: "system",
}


def links(handles: dict[str, Handle]) -> dict[str, tuple[DeviceLink, ...]]:
    """Uuid → its links to the others. A card that cannot be asked has none."""
    found: dict[str, list[DeviceLink]] = {uuid: [] for uuid in handles}
    for one, other in combinations(sorted(handles), 2):
        try:
            kind = _kind(handles[one], handles[other])
        except pynvml.NVMLError:
            continue  # one of the two is lost: its reading says so
        if kind:
            found[one].append(DeviceLink(other, kind))
            found[other].append(DeviceLink(one, kind))
    return {uuid: tuple(its) for uuid, its in found.items()}


def _kind(one: Handle, other: Handle) -> str:
    """NVLink, directly or through its switches; else the way over PCIe."""
    works = value(pynvml.nvmlDeviceGetP2PStatus, one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    if works == pynvml.NVML_P2P_STATUS_OK:
        return "nvlink"
    return _KINDS.get(value(pynvml.nvmlDeviceGetTopologyCommonAncestor, one, other), "")
