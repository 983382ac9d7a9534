"""What NVML says of one card and its slices; None for what card or driver cannot say."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pynvml

from engines import host
from engines.spec import GpuReading

_T = TypeVar("_T")
Handle = Any  # pynvml's pointer to a card or a slice
# No library or no driver: this host has no card. Any other error is a card we cannot see.
NO_CARDS = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
_UNSAID = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NO_PERMISSION,  # of a card in slices: its processes are the slices'
)
_LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
WITHOUT_SLICES = "is in MIG mode without a slice: make some with `nvidia-smi mig`, or end the mode"


def value(ask: Callable[..., _T], *arguments: object) -> _T | None:
    """None where this card or driver cannot say it; other errors are the card's."""
    try:
        return ask(*arguments)
    except pynvml.NVMLError as error:
        if error.value in _UNSAID:
            return None
        raise


def is_lost(error: pynvml.NVMLError) -> bool:
    return error.value in _LOST


@dataclass(frozen=True)
class _Fixed:
    """What does not change while a driver runs, asked once a card."""

    name: str
    compute_capability: str


@dataclass
class Cards:
    """Reads cards; knows each by its uuid, for an index is another card's after a reset."""

    _fixed: dict[str, _Fixed] = field(default_factory=dict)
    handles: dict[str, Handle] = field(default_factory=dict)  # uuid → card, of whole cards only
    instances: dict[tuple[str, int], str] = field(default_factory=dict)  # of slices → uuid

    def forget(self) -> None:
        """Handles are the driver's: after its end they point to nothing."""
        self.handles.clear()
        self.instances.clear()

    def read(self, index: int) -> list[GpuReading]:
        """The card, or its slices in its place; raises NVMLError if it cannot be read."""
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        card = self._whole(handle, uuid, index)
        self.handles[uuid] = handle
        mode = value(pynvml.nvmlDeviceGetMigMode, handle)
        if not mode or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return [card]
        self.instances = {key: one for key, one in self.instances.items() if key[0] != uuid}
        slices = [self._slice(slice_, card) for slice_ in _slices(handle)]
        return slices or [without_values(card, WITHOUT_SLICES)]

    def _whole(self, handle: Handle, uuid: str, index: int) -> GpuReading:
        fixed = self._fixed.get(uuid) or self._fixed.setdefault(uuid, _fixed(handle))
        utilisation = value(pynvml.nvmlDeviceGetUtilizationRates, handle)
        power = value(pynvml.nvmlDeviceGetPowerUsage, handle)
        energy = value(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle)
        temperature = value(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
        return GpuReading(
            uuid=uuid,
            index=index,
            kind="gpu",
            name=fixed.name,
            compute_capability=fixed.compute_capability,
            utilisation_ratio=None if utilisation is None else utilisation.gpu / 100,
            power_watts=None if power is None else power / 1000,
            energy_joules=None if energy is None else energy / 1000,
            temperature_celsius=None if temperature is None else float(temperature),
            ecc_corrected=_ecc(handle, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            ecc_uncorrected=_ecc(handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            **_memory(handle),
        )

    def _slice(self, handle: Handle, card: GpuReading) -> GpuReading:
        """Power and energy are the whole card's: told of each slice they would count twice."""
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        fixed = self._fixed.get(uuid) or self._fixed.setdefault(uuid, _fixed(handle))
        instance = value(pynvml.nvmlDeviceGetGpuInstanceId, handle)
        if instance is not None:
            self.instances[card.uuid, instance] = uuid
        return replace(
            card,
            uuid=uuid,
            name=fixed.name,
            parent_uuid=card.uuid,
            compute_capability=fixed.compute_capability or card.compute_capability,
            utilisation_ratio=None,
            power_watts=None,
            energy_joules=None,
            **_memory(handle),
        )


def without_values(card: GpuReading, error: str, *, lost: bool = False) -> GpuReading:
    return replace(
        card,
        memory_free_bytes=None,
        utilisation_ratio=None,
        power_watts=None,
        energy_joules=None,
        temperature_celsius=None,
        ecc_corrected=None,
        ecc_uncorrected=None,
        processes=(),
        xids=(),
        error=error,
        lost=lost,
    )


def unreadable(index: int) -> GpuReading:
    """A card that has never told its uuid."""
    return GpuReading(
        uuid=f"gpu-at-{index}",
        index=index,
        kind="gpu",
        name="unreadable card",
        memory_total_bytes=0,
        memory_free_bytes=None,
        utilisation_ratio=None,
        power_watts=None,
        temperature_celsius=None,
    )


def _fixed(handle: Handle) -> _Fixed:
    capability = value(pynvml.nvmlDeviceGetCudaComputeCapability, handle)
    return _Fixed(
        name=value(pynvml.nvmlDeviceGetName, handle) or "unnamed card",
        compute_capability=".".join(map(str, capability)) if capability else "",
    )


def _memory(handle: Handle) -> dict[str, Any]:
    memory = value(pynvml.nvmlDeviceGetMemoryInfo, handle)
    processes = value(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
    # A card that shares the memory of its host has none of its own to tell of.
    total, free = (memory.total, memory.free) if memory else host.memory_bytes()
    return {
        "memory_total_bytes": total,
        "memory_free_bytes": free,
        "processes": tuple((one.pid, one.usedGpuMemory) for one in processes),
        "unified_memory": memory is None,
    }


def _ecc(handle: Handle, kind: int) -> int | None:
    return value(pynvml.nvmlDeviceGetTotalEccErrors, handle, kind, pynvml.NVML_VOLATILE_ECC)


def _slices(handle: Handle) -> Iterator[Handle]:
    """Their numbers have gaps."""
    for number in range(value(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        try:
            yield pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_NOT_FOUND:
                raise
