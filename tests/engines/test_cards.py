"""Cards by uuid, in slices, joined by NVLink, with their critical errors: through nvidia-ml-py."""

from engines import xids
from tests.engines.fake_nvml import card, slices, write_state

GIB = 1024**3


def three_cards(**more):
    return card(0) | card(1) | card(2) | {"count": 3} | more


def by_uuid(found):
    return {reading["uuid"]: reading for reading in found}


def test_a_card_is_known_by_its_uuid_when_indexes_move_up(readings, state):
    reader = readings()
    write_state(state, **three_cards())
    reader.read()
    moved = card(0) | card(1, uuid="GPU-2") | {"count": 2}
    write_state(state, **moved, **{"lost.0": 1})
    found = by_uuid(reader.read())
    assert set(found) == {"GPU-0", "GPU-2"}
    assert (found["GPU-0"]["lost"], found["GPU-2"]["lost"]) == (True, False)
    assert found["GPU-2"]["index"] == 1
    write_state(state, **moved, **{"lost.1": 1})
    assert by_uuid(reader.read())["GPU-2"]["lost"]


def test_slices_are_devices_of_their_own_and_their_card_is_not_offered(readings, state):
    write_state(
        state,
        **card(0, ecc_uncorrected=2, energy=1000),
        **slices(0, {1: {"memory_total": 18 * GIB}, 3: {"memory_used": GIB, "process.0": "7:5"}}),
        **card(1),
        count=2,
    )
    found = by_uuid(readings().read())
    assert set(found) == {"MIG-0-1", "MIG-0-3", "GPU-1"}
    first, second = found["MIG-0-1"], found["MIG-0-3"]
    assert (first["parent_uuid"], first["memory_total_bytes"]) == ("GPU-0", 18 * GIB)
    assert (second["processes"], second["index"]) == ([[7, 5]], 0)
    # Of the whole card: told of each slice they would count twice, or mean nothing.
    assert {first["power_watts"], first["energy_joules"], first["utilisation_ratio"]} == {None}
    assert (first["temperature_celsius"], first["ecc_uncorrected"]) == (54.0, 2)


def test_a_card_made_into_slices_is_no_longer_known_as_a_whole(readings, state):
    reader = readings()
    write_state(state, count=1, **card(0))
    reader.read()
    write_state(state, count=1, **card(0), **slices(0, {0: {}}))
    assert set(by_uuid(reader.read())) == {"MIG-0-0"}
    write_state(state, count=1, **card(0), **slices(0, {0: {}}), **{"lost.0": 1})
    [lost] = reader.read()
    assert (lost["uuid"], lost["lost"]) == ("MIG-0-0", True)


def test_a_card_in_mig_mode_without_slices_takes_nothing_and_says_what_to_do(readings, state):
    write_state(state, count=1, **card(0, mig=1))
    [reading] = readings().read()
    assert (reading["kind"], reading["memory_free_bytes"]) == ("gpu", None)
    assert "nvidia-smi mig" in reading["error"]


def test_links_tell_nvlink_from_ways_over_the_bus(readings, state):
    write_state(state, **three_cards(**{"nvlink.0.1": 1, "topology.0.2": 20, "topology.1.2": 50}))
    found = by_uuid(readings().read())
    links = {uuid: {one["uuid"]: one["kind"] for one in it["links"]} for uuid, it in found.items()}
    assert links == {
        "GPU-0": {"GPU-1": "nvlink", "GPU-2": "pcie_switches"},
        "GPU-1": {"GPU-0": "nvlink", "GPU-2": "system"},
        "GPU-2": {"GPU-0": "pcie_switches", "GPU-1": "system"},
    }


def test_a_driver_that_knows_no_topology_tells_of_no_links(readings, state):
    write_state(state, **three_cards(**{"nvlink.0.1": 0, "fail.nvmlDeviceGetP2PStatus": 13}))
    assert [reading["links"] for reading in readings().read()] == [[], [], []]


def test_critical_errors_are_told_once_and_of_their_card(readings, state):
    reader = readings()
    write_state(state, **three_cards())
    reader.read()
    events = {"event.0": "1:48", "event.1": "1:63", "event.2": "2:31"}
    write_state(state, **three_cards(**events))
    assert [reading["xids"] for reading in reader.read()] == [[], [48, 63], [31]]
    assert [reading["xids"] for reading in reader.read()] == [[], [], []]


def test_a_critical_error_of_a_card_in_slices_is_the_named_slices_or_all_of_them(readings, state):
    two = slices(0, {0: {"gpu_instance": 3}, 1: {"gpu_instance": 5}})
    reader = readings()
    write_state(state, count=1, **card(0), **two)
    reader.read()
    write_state(state, count=1, **card(0), **two, **{"event.0": "0:94:5", "event.1": "0:79"})
    found = by_uuid(reader.read())
    assert (found["MIG-0-0"]["xids"], found["MIG-0-1"]["xids"]) == ([79], [94, 79])


def test_a_driver_that_tells_no_errors_is_read_all_the_same(readings, state):
    write_state(state, **three_cards(**{"fail.nvmlEventSetCreate": 3}))
    assert [reading["error"] for reading in readings().read()] == ["", "", ""]


def test_what_a_program_did_to_itself_does_not_speak_against_the_card():
    assert [code for code in (13, 31, 43, 45) if xids.is_of_the_card(code)] == []
    assert [code for code in (48, 74, 79, 95, 119, 999) if not xids.is_of_the_card(code)] == []
    assert xids.meaning(79) == "the card has fallen off the bus"
    assert "Xid" in xids.meaning(999)
