"""Devices of this host: cards through NVML, or the memory of a host that has none."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import psutil
import pynvml

from engines import host
from engines.spec import GpuReading

READ_WAIT_SECONDS = 5.0
_T = TypeVar("_T")
# No library or no driver: this host has no card. Any other error is a card we cannot see.
_NO_CARDS = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
_UNSUPPORTED = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


@dataclass
class Reader:
    """Reads again and again; remembers what it saw, for when the driver stops answering."""

    wait_seconds: float = READ_WAIT_SECONDS
    _known: dict[int, GpuReading] = field(default_factory=dict)
    _initialised: bool = False
    _cpu_read_before: bool = False
    _hanging: threading.Thread | None = None

    def read(self) -> list[GpuReading]:
        """One reading a device, within `wait_seconds` even if the driver hangs."""
        if self._hanging and self._hanging.is_alive():
            return self._stale("NVML has not answered since an earlier reading")
        result: list[list[GpuReading]] = []
        thread = threading.Thread(target=lambda: result.append(self._read()), daemon=True)
        thread.start()
        thread.join(self.wait_seconds)
        if result:
            return result[0]
        self._hanging = thread
        return self._stale(f"NVML did not answer within {self.wait_seconds:g} s")

    def _read(self) -> list[GpuReading]:
        try:
            if not self._initialised:
                pynvml.nvmlInit()
                self._initialised = True
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            return self._without_driver(error)
        readings = [self._read_card(index) for index in range(count)]
        return readings or [self._read_cpu()]

    def _without_driver(self, error: pynvml.NVMLError) -> list[GpuReading]:
        if self._initialised:
            # The next reading starts anew; a driver that was updated answers only then.
            self._initialised = False
            _value(pynvml.nvmlShutdown)
        if self._known:
            return self._stale(f"NVML: {error}")
        return [self._read_cpu("" if error.value in _NO_CARDS else f"NVML: {error}")]

    def _read_card(self, index: int) -> GpuReading:
        """One lost card says so and hides no other."""
        try:
            reading = _read_card(index)
        except pynvml.NVMLError as error:
            return _without_values(self._known.get(index) or _unknown(index), f"NVML: {error}")
        self._known[index] = reading
        return reading

    def _read_cpu(self, error: str = "") -> GpuReading:
        total, free = host.memory_bytes()
        percent = psutil.cpu_percent()
        # psutil tells the use since the call before; of the first call it can say nothing.
        utilisation = percent / 100 if self._cpu_read_before else None
        self._cpu_read_before = True
        return GpuReading(
            uuid=host.cpu_uuid(),
            index=0,
            kind="cpu",
            name=host.processor_name(),
            memory_total_bytes=total,
            memory_free_bytes=free,
            utilisation_ratio=utilisation,
            power_watts=None,
            temperature_celsius=None,
            error=error,
        )

    def _stale(self, error: str) -> list[GpuReading]:
        """The last inventory, so that nobody takes a silent driver for a host without cards."""
        if not self._known:
            return [self._read_cpu(error)]
        return [_without_values(card, error) for _, card in sorted(self._known.items())]


_reader = Reader()


def read() -> list[GpuReading]:
    return _reader.read()


def _read_card(index: int) -> GpuReading:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    memory = _value(pynvml.nvmlDeviceGetMemoryInfo, handle)
    utilisation = _value(pynvml.nvmlDeviceGetUtilizationRates, handle)
    power = _value(pynvml.nvmlDeviceGetPowerUsage, handle)
    temperature = _value(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)
    processes = _value(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or []
    # A card that shares the memory of its host has none of its own to tell of.
    total, free = (memory.total, memory.free) if memory else host.memory_bytes()
    return GpuReading(
        uuid=uuid,
        index=index,
        kind="gpu",
        name=_value(pynvml.nvmlDeviceGetName, handle) or "unnamed card",
        memory_total_bytes=total,
        memory_free_bytes=free,
        utilisation_ratio=None if utilisation is None else utilisation.gpu / 100,
        power_watts=None if power is None else power / 1000,
        temperature_celsius=None if temperature is None else float(temperature),
        processes=tuple((one.pid, one.usedGpuMemory) for one in processes),
        unified_memory=memory is None,
    )


def _value(ask: Callable[..., _T], *arguments: object) -> _T | None:
    """None where this card or driver cannot say it; other errors are the card's."""
    try:
        return ask(*arguments)
    except pynvml.NVMLError as error:
        if error.value in _UNSUPPORTED:
            return None
        raise


def _without_values(card: GpuReading, error: str) -> GpuReading:
    return replace(
        card,
        memory_free_bytes=None,
        utilisation_ratio=None,
        power_watts=None,
        temperature_celsius=None,
        processes=(),
        error=error,
    )


def _unknown(index: int) -> GpuReading:
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
