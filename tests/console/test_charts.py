"""Series of samples become points that a chart can be drawn from."""

import pytest

from console import charts
from console.charts import GIB, Reading

AT = 1_000_000.0


def device(name: str = "a", at: float = AT, **values) -> Reading:
    return Reading("device", f"device:{name}", f"node/{name}", at, values)


def replica(number: int = 1, at: float = AT, **values) -> Reading:
    return Reading("replica", f"replica:{number}", f"gemma#{number}", at, values)


def gateway(at: float = AT, **values) -> Reading:
    return Reading("gateway", "gateway:g", "gateway:g", at, values)


def latest(*readings: Reading) -> dict[str, Reading]:
    return {reading.subject: reading for reading in readings}


@pytest.mark.parametrize(
    ("readings", "chart", "values"),
    [
        ((), "utilisation", []),
        ((device(utilisation_ratio=0.25),), "utilisation", [25.0]),
        ((device(memory_used_bytes=3 * GIB),), "memory", [3.0]),
        ((device("b"), device("a", utilisation_ratio=1)), "utilisation", [100, None]),
        ((replica(1, running=2, waiting=1), replica(2, running=3)), "calls", [5, 1, None]),
        ((gateway(waiting=4),), "calls", [None, None, 4]),
        ((replica(1, ttft_seconds=0.2), replica(2, ttft_seconds=0.4)), "ttft", [0.3]),
        ((replica(1, ttft_seconds=0.2), replica(2, ttft_seconds=None)), "ttft", [0.2]),
        ((replica(tpot_seconds=0.02),), "tpot", [20.0]),
        ((gateway(calls_lately=4, tries_lately=6),), "tries", [1.5, None]),
        ((gateway(calls_lately=0, tries_lately=0),), "tries", [None, None]),
        ((gateway(requests_lately=30, retries_lately=20),), "tries", [None, 3.0]),
        ((gateway(requests_lately=5, retries_lately=0),), "tries", [None, 1.0]),
        ((gateway(requests_lately=3, retries_lately=3),), "tries", [None, None]),
        (
            (replica(generation_tokens_per_second=50, prompt_tokens_per_second=80),),
            "tokens",
            [50, 80],
        ),
    ],
)
def test_a_point_says_what_is_measured_now(readings, chart, values):
    assert charts.point(latest(*readings), at=AT)[chart] == values


def test_an_old_sample_says_nothing_about_now():
    old = device(at=AT - charts.FRESH_SECONDS - 0.1, utilisation_ratio=0.5)
    assert charts.point(latest(old), at=AT)["utilisation"] == [None]


def test_not_measured_is_a_gap_and_never_zero():
    assert charts.point(latest(device(utilisation_ratio=None)), at=AT)["utilisation"] == [None]


def test_many_devices_become_their_mean_and_the_busiest():
    many = [device(f"d{i}", utilisation_ratio=i / 10) for i in range(charts.LINES_MAX + 1)]
    assert charts.labels(latest(*many))["utilisation"] == ["mean of 9", "busiest"]
    assert charts.point(latest(*many), at=AT)["utilisation"] == [40.0, 80.0]


def test_a_board_has_a_point_for_each_second_of_the_window():
    series = {"device:a": [device(at=AT - 60, utilisation_ratio=0.5)]}
    board = charts.board(series, latest(device(utilisation_ratio=0.9)), at=AT)
    [utilisation] = [chart for chart in board if chart["name"] == "utilisation"]
    assert len(utilisation["times"]) == charts.WINDOW_SECONDS
    assert utilisation["times"][-1] == AT
    assert len(utilisation["columns"][0]) == charts.WINDOW_SECONDS
    shown = dict(zip(utilisation["times"], utilisation["columns"][0], strict=True))
    assert shown[AT - 60] == 50.0
    assert shown[AT - 50] is None


def test_a_board_holds_every_chart_also_when_nothing_is_heard():
    board = charts.board({}, {}, at=AT)
    assert [chart["name"] for chart in board] == [kind.name for kind in charts.CHARTS]
    assert all(chart["nothing"] for chart in board)


def test_labels_and_values_have_the_same_length():
    seen = latest(device(), replica(), gateway())
    values, labels = charts.point(seen, at=AT), charts.labels(seen)
    assert {name: len(line) for name, line in values.items()} == {
        name: len(line) for name, line in labels.items()
    }
