"""Series of samples → points of the overview's charts. Pure."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

WINDOW_SECONDS = 300
FRESH_SECONDS = 3.0  # an older sample says nothing about now
LINES_MAX = 8  # devices with a line of their own; more become a mean and the busiest
GIB = 2**30


@dataclass(frozen=True)
class Reading:
    """One sample of a device, a replica or a gateway; a value that is None was not measured."""

    kind: str  # "device" | "replica" | "gateway"
    subject: str
    label: str
    at: float
    values: Mapping[str, float | None]


@dataclass(frozen=True)
class ChartKind:
    """What one chart shows and how its figures are written."""

    name: str
    title: str
    unit: str
    total: str  # the figure in its corner: "sum", "mean" or "first" of its lines
    top: float | None  # fixed upper end of its scale
    floor: float  # least upper end of its scale
    nothing: str  # shown while there is nothing to draw
    sparse: bool = False  # measured only while calls end: points, joined over the gaps


CHARTS = (
    ChartKind("utilisation", "Device utilisation", "%", "mean", 100, 100, "No device is read yet"),
    ChartKind("memory", "Device memory in use", "GiB", "sum", None, 1, "No device is read yet"),
    ChartKind("calls", "Calls running and waiting", "running", "first", None, 4, "No engine yet"),
    ChartKind("ttft", "Time to first token", "s", "mean", None, 0.1, "No call lately", True),
    ChartKind("tpot", "Time per output token", "ms", "mean", None, 10, "No call lately", True),
    ChartKind("tokens", "Tokens per second", "tokens/s", "sum", None, 10, "No engine yet"),
    ChartKind("tries", "Tries per call", "tries", "first", None, 2, "No call lately", True),
)


@dataclass(frozen=True)
class Line:
    """One line of a chart: a name, and how it is read out of what is fresh at an instant."""

    label: str
    read: Callable[[Mapping[str, Reading]], float | None]


def lines(readings: Mapping[str, Reading]) -> dict[str, tuple[Line, ...]]:
    """Chart name → its lines, for these subjects; the order is stable."""
    devices = sorted(
        (reading for reading in readings.values() if reading.kind == "device"),
        key=lambda reading: (reading.label, reading.subject),
    )
    return {
        "utilisation": _of_devices(devices, "utilisation_ratio", 100),
        "memory": _of_devices(devices, "memory_used_bytes", 1 / GIB),
        "calls": (
            Line("running", _summed("replica", "running")),
            Line("waiting in engines", _summed("replica", "waiting")),
            Line("waiting in gateways", _summed("gateway", "waiting")),
        ),
        "ttft": (Line("mean", _mean("ttft_seconds", 1)),),
        "tpot": (Line("mean", _mean("tpot_seconds", 1000)),),
        "tokens": (
            Line("output", _summed("replica", "generation_tokens_per_second")),
            Line("input", _summed("replica", "prompt_tokens_per_second")),
        ),
        "tries": (Line("at engines", _tries), Line("of clients", _resent)),
    }


def point(latest: Mapping[str, Reading], *, at: float) -> dict[str, list[float | None]]:
    """Chart name → a value for each of its lines, from what is fresh at `at`."""
    fresh = {name: reading for name, reading in latest.items() if _is_fresh(reading, at)}
    return {
        name: [_rounded(line.read(fresh)) for line in of_chart]
        for name, of_chart in lines(latest).items()
    }


def board(
    series: Mapping[str, Sequence[Reading]], latest: Mapping[str, Reading], *, at: float
) -> list[dict]:
    """All charts with their last minutes, a point a second, ready to be drawn."""
    times = [float(second) for second in range(int(at) - WINDOW_SECONDS + 1, int(at) + 1)]
    instants = {name: [reading.at for reading in readings] for name, readings in series.items()}
    columns: dict[str, list[list[float | None]]] = {kind.name: [] for kind in CHARTS}
    of_charts = lines(latest)
    for time in times:
        fresh = {}
        for name in series:
            place = bisect_right(instants[name], time + 1) - 1
            if place >= 0 and _is_fresh(series[name][place], time):
                fresh[name] = series[name][place]
        for name, of_chart in of_charts.items():
            columns[name].append([_rounded(line.read(fresh)) for line in of_chart])
    return [
        asdict(kind)
        | {
            "labels": [line.label for line in of_charts[kind.name]],
            "times": times,
            "columns": [list(column) for column in zip(*columns[kind.name], strict=True)],
        }
        for kind in CHARTS
    ]


def labels(latest: Mapping[str, Reading]) -> dict[str, list[str]]:
    """What a point's values mean; when it changes, a new board is due."""
    return {name: [line.label for line in of_chart] for name, of_chart in lines(latest).items()}


def _is_fresh(reading: Reading, at: float) -> bool:
    return -FRESH_SECONDS <= at - reading.at <= FRESH_SECONDS


def _of_devices(devices: list[Reading], field: str, factor: float) -> tuple[Line, ...]:
    if len(devices) > LINES_MAX:
        named = {device.subject for device in devices}
        return (
            Line(f"mean of {len(devices)}", _over(named, field, factor, _average)),
            Line("busiest", _over(named, field, factor, max)),
        )
    return tuple(
        Line(device.label, _over({device.subject}, field, factor, max)) for device in devices
    )


def _over(subjects: set[str], field: str, factor: float, how) -> Callable:
    def read(fresh: Mapping[str, Reading]) -> float | None:
        known = _known(fresh, field, lambda reading: reading.subject in subjects)
        return how(known) * factor if known else None

    return read


def _summed(kind: str, field: str) -> Callable:
    def read(fresh: Mapping[str, Reading]) -> float | None:
        known = _known(fresh, field, lambda reading: reading.kind == kind)
        return sum(known) if known else None

    return read


def _mean(field: str, factor: float) -> Callable:
    def read(fresh: Mapping[str, Reading]) -> float | None:
        known = _known(fresh, field, lambda reading: reading.kind == "replica")
        return _average(known) * factor if known else None

    return read


def _tries(fresh: Mapping[str, Reading]) -> float | None:
    """One is no retry at all; twice as many calls at engines as tenants sent is a storm."""
    calls = _summed("gateway", "calls_lately")(fresh)
    return _summed("gateway", "tries_lately")(fresh) / calls if calls else None


def _resent(fresh: Mapping[str, Reading]) -> float | None:
    """Requests for each that is not sent once more: what clients' retries make of the load."""
    requests = _summed("gateway", "requests_lately")(fresh) or 0
    first = requests - (_summed("gateway", "retries_lately")(fresh) or 0)
    return requests / first if first > 0 else None


def _known(fresh: Mapping[str, Reading], field: str, wanted) -> list[float]:
    values = [reading.values.get(field) for reading in fresh.values() if wanted(reading)]
    return [value for value in values if value is not None]


def _average(values: list[float]) -> float:
    return sum(values) / len(values)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
