"""Devices of this host: cards through NVML, or the memory of a host that has none."""

import threading
from dataclasses import dataclass, field, replace

import pynvml

from engines import host, nvml, topology
from engines.nvml import Cards, without_values
from engines.spec import DeviceLink, GpuReading
from engines.xids import Events

READ_WAIT_SECONDS = 5.0


@dataclass
class Reader:
    """Reads again and again; remembers what it saw, for when the driver stops answering."""

    wait_seconds: float = READ_WAIT_SECONDS
    _known: dict[str, GpuReading] = field(default_factory=dict)  # by uuid, as last read
    _cards: Cards = field(default_factory=Cards)
    _events: Events = field(default_factory=Events)
    _links: dict[str, tuple[DeviceLink, ...]] = field(default_factory=dict)
    _driver: str = ""
    _cuda: str = ""
    _initialised: bool = False
    _processors: host.ProcessorSeconds | None = None  # at the reading before
    _hanging: threading.Thread | None = None
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def read(self, *, xids: bool = True) -> list[GpuReading]:
        """One reading a device, within `wait_seconds` even if the driver hangs.

        The driver tells each critical error once: without `xids` they are left to the next reading.
        """
        if self._hanging and self._hanging.is_alive():
            return self._stale("NVML has not answered since an earlier reading")
        result: list[list[GpuReading]] = []
        thread = threading.Thread(target=lambda: result.append(self._read(xids)), daemon=True)
        thread.start()
        thread.join(self.wait_seconds)
        if result:
            return result[0]
        self._hanging = thread
        return self._stale(f"NVML did not answer within {self.wait_seconds:g} s")

    def _read(self, xids: bool) -> list[GpuReading]:
        with self._one_at_a_time:
            return self._read_all(xids)

    def _read_all(self, xids: bool) -> list[GpuReading]:
        try:
            if not self._initialised:
                self._begin()
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            return self._without_driver(error)
        readings, broken = self._read_cards(count, xids)
        if not readings and not broken:
            return [self._read_cpu()]
        self._remember(readings)
        return sorted([*readings, *broken], key=lambda reading: reading.index)

    def _begin(self) -> None:
        pynvml.nvmlInit()
        self._initialised = True
        self._driver = nvml.value(pynvml.nvmlSystemGetDriverVersion) or ""
        serves = nvml.value(pynvml.nvmlSystemGetCudaDriverVersion_v2) or 0
        self._cuda = f"{serves // 1000}.{serves % 1000 // 10}" if serves else ""

    def _read_cards(self, count: int, xids: bool) -> tuple[list[GpuReading], list[GpuReading]]:
        """One lost card says so and hides no other."""
        readings: list[GpuReading] = []
        errors: dict[int, pynvml.NVMLError] = {}
        for index in range(count):
            try:
                readings += self._cards.read(index)
            except pynvml.NVMLError as error:
                errors[index] = error
        readings = self._joined(readings, xids)
        broken: list[GpuReading] = []
        for index, error in errors.items():
            broken += self._broken(index, error, {one.uuid for one in [*readings, *broken]})
        return readings, broken

    def _joined(self, readings: list[GpuReading], xids: bool) -> list[GpuReading]:
        """With what is told of all cards at once: their links, and their critical errors."""
        told = self._events.told(self._cards) if xids else {}
        if told or self._links.keys() != self._cards.handles.keys():
            self._links = topology.links(self._cards.handles)
        return [
            replace(
                reading,
                driver=self._driver,
                cuda=self._cuda,
                links=self._links.get(reading.uuid, ()),
                xids=told.get(reading.uuid, ()),
            )
            for reading in readings
        ]

    def _remember(self, readings: list[GpuReading]) -> None:
        """What answered at an index before is no longer there: moved, or made into slices."""
        read = {reading.index for reading in readings}
        kept = {uuid: card for uuid, card in self._known.items() if card.index not in read}
        self._known = kept | {one.uuid: replace(one, xids=()) for one in readings}

    def _broken(self, index: int, error: pynvml.NVMLError, read: set[str]) -> list[GpuReading]:
        """What was read at that index before, unless it now answers at another."""
        lost = nvml.is_lost(error)
        missing = [
            card for card in self._known.values() if card.uuid not in read and card.index == index
        ]
        return [
            without_values(card, f"NVML: {error}", lost=lost)
            for card in missing or [nvml.unreadable(index)]
        ]

    def _without_driver(self, error: pynvml.NVMLError) -> list[GpuReading]:
        if self._initialised:
            # The next reading starts anew; a driver that was updated answers only then.
            self._initialised = False
            self._cards.forget()
            self._events.forget()
            nvml.value(pynvml.nvmlShutdown)
        if self._known:
            return self._stale(f"NVML: {error}")
        return [self._read_cpu("" if error.value in nvml.NO_CARDS else f"NVML: {error}")]

    def _read_cpu(self, error: str = "") -> GpuReading:
        total, free = host.memory_bytes()
        before, self._processors = self._processors, host.processor_seconds()
        return GpuReading(
            uuid=host.cpu_uuid(),
            index=0,
            kind="cpu",
            name=host.processor_name(),
            memory_total_bytes=total,
            memory_free_bytes=free,
            utilisation_ratio=self._processors.ratio_since(before),
            power_watts=None,
            temperature_celsius=None,
            error=error,
        )

    def _stale(self, error: str) -> list[GpuReading]:
        """The last inventory, so that nobody takes a silent driver for a host without cards."""
        if not self._known:
            return [self._read_cpu(error)]
        known = sorted(self._known.values(), key=lambda card: (card.index, card.uuid))
        return [without_values(card, error) for card in known]


_reader = Reader()


def read(*, xids: bool = False) -> list[GpuReading]:
    return _reader.read(xids=xids)
