"""Devices as the real nvidia-ml-py reads them from a fake driver library (case E08)."""

import pytest

from engines import host
from tests.engines.fake_nvml import card, write_state

VERSION_MISMATCH = 18
UNKNOWN_ERROR = 999


def two_cards(**more):
    return card(0) | card(1) | {"count": 2} | more


def test_reads_every_card(readings, state):
    more = {
        "gpu.0.process.0": "42:1000",
        "gpu.0.process.1": "43",
        "driver": "580.95.05",
        "cuda": 13000,
    }
    whole = {"energy": 7_500, "ecc_corrected": 3, "ecc_uncorrected": 0, "capability": "9.0"}
    write_state(state, **two_cards(**more, **{f"gpu.0.{name}": it for name, it in whole.items()}))
    first, second = readings().read()
    assert first == {
        "uuid": "GPU-0",
        "index": 0,
        "kind": "gpu",
        "name": "NVIDIA H200",
        "memory_total_bytes": 150_000_000_000,
        "memory_free_bytes": 100_000_000_000,
        "utilisation_ratio": 0.37,
        "power_watts": 312.5,
        "temperature_celsius": 54.0,
        "processes": [[42, 1000], [43, None]],
        "error": "",
        "unified_memory": False,
        "lost": False,
        "parent_uuid": "",
        "links": [],
        "compute_capability": "9.0",
        "driver": "580.95.05",
        "cuda": "13.0",
        "energy_joules": 7.5,
        "ecc_corrected": 3,
        "ecc_uncorrected": 0,
        "xids": [],
    }
    assert (second["uuid"], second["processes"]) == ("GPU-1", [])


@pytest.mark.parametrize(
    ("missing", "field"),
    [
        ("utilisation", "utilisation_ratio"),
        ("power", "power_watts"),
        ("temperature", "temperature_celsius"),
        ("energy", "energy_joules"),
        ("ecc_uncorrected", "ecc_uncorrected"),
    ],
)
def test_e08_what_a_card_does_not_support_is_none_and_never_zero(readings, state, missing, field):
    write_state(state, count=1, **card(0, **{missing: None}))
    [reading] = readings().read()
    assert reading[field] is None
    assert reading["error"] == ""
    assert reading["memory_free_bytes"] == 100_000_000_000


def test_e08_a_card_without_memory_of_its_own_shows_the_hosts_and_says_so(readings, state):
    write_state(state, count=1, **card(0, memory_total=None))
    [reading] = readings().read()
    assert reading["unified_memory"] is True
    assert reading["memory_total_bytes"] == host.memory_bytes()[0]


def test_e08_one_lost_card_hides_no_other(readings, state):
    reader = readings()
    write_state(state, **two_cards())
    reader.read()
    write_state(state, **two_cards(**{"lost.0": 1}))
    lost, healthy = reader.read()
    assert (lost["uuid"], lost["error"], lost["lost"]) == ("GPU-0", "NVML: GPU is lost", True)
    assert lost["memory_free_bytes"] is None
    assert lost["memory_total_bytes"] == 150_000_000_000
    assert (healthy["uuid"], healthy["error"]) == ("GPU-1", "")


def test_e08_a_card_that_was_never_readable_takes_nothing(readings, state):
    write_state(state, **two_cards(**{"lost.1": 1}))
    [_, lost] = readings().read()
    assert lost["memory_total_bytes"] == 0
    assert lost["memory_free_bytes"] is None
    assert lost["error"]


def test_e08_a_driver_that_fails_later_leaves_the_inventory_and_comes_back(readings, state):
    reader = readings()
    write_state(state, **two_cards())
    reader.read()
    failing = {"fail.nvmlInit": VERSION_MISMATCH, "fail.nvmlDeviceGetCount": VERSION_MISMATCH}
    write_state(state, **two_cards(**failing))
    for _ in range(2):
        stale = reader.read()
        assert [one["uuid"] for one in stale] == ["GPU-0", "GPU-1"]
        assert {one["memory_free_bytes"] for one in stale} == {None}
        assert "version mismatch" in stale[0]["error"]
    write_state(state, **two_cards())
    assert [one["error"] for one in reader.read()] == ["", ""]


def test_e08_a_driver_that_hangs_does_not_hold_the_reader(readings, state):
    reader = readings(wait_seconds=0.5)
    write_state(state, **two_cards())
    reader.read()
    write_state(state, **two_cards(**{"hang.nvmlDeviceGetCount": 600}))
    assert "did not answer within 0.5 s" in reader.read()[0]["error"]
    assert "has not answered since" in reader.read()[1]["error"]


def test_e08_without_the_library_the_host_offers_its_memory(readings, state):
    [reading] = readings(library=None).read()
    total, _ = host.memory_bytes()
    assert (reading["kind"], reading["uuid"]) == ("cpu", host.cpu_uuid())
    assert reading["memory_total_bytes"] == total
    assert 0 < reading["memory_free_bytes"] <= total
    assert reading["power_watts"] is None
    assert reading["error"] == ""


def test_the_first_utilisation_of_a_cpu_is_unknown_and_the_next_a_ratio(readings, state):
    reader = readings(library=None)
    assert reader.read()[0]["utilisation_ratio"] is None
    while (ratio := reader.read()[0]["utilisation_ratio"]) is None:
        pass  # no time has passed by the kernel's clock of processors
    assert 0 <= ratio <= 1


def test_a_driver_without_cards_is_a_host_without_cards(readings, state):
    write_state(state, count=0)
    assert [one["kind"] for one in readings().read()] == ["cpu"]


def test_e08_a_driver_broken_from_the_start_says_why_there_is_no_card(readings, state):
    write_state(state, **{"fail.nvmlInit": UNKNOWN_ERROR})
    [reading] = readings().read()
    assert reading["kind"] == "cpu"
    assert reading["error"] == "NVML: Unknown Error"
