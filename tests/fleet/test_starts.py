"""What launches teach: the parts of a cold start, and the memory they really held."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.backends.postgresql.psycopg_any import NumericRange
from django.test.utils import CaptureQueriesContext

from control.fleet import launch, starts
from control.models import ColdStart, Reservation, VersionPeak, WakeUp
from control.placement import facts
from control.placement.memory import GIB, MIB
from control.routes import compiler
from control.routes.actions import save_route
from control.routes.wanted import RouteWanted, TargetWanted
from control.states import Part, ReplicaState
from control.telemetry import cold_starts
from engines.spec import Startup
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica, a_version
from tests.placement.files import decoder, write_headers
from tests.placement.test_memory import TINY

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
P, S, L, W = ReplicaState.PREPARING, ReplicaState.STARTING, ReplicaState.LOADING, "warming"


def fixed_bytes(replica):
    return facts.need(replica.version, replica.deployment).sizes["gpu"].fixed_bytes


def after(seconds):
    return AT + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("reached", "ready", "capture", "parts"),
    [
        ({P: 1, S: 4, L: 16, W: 20}, 25, 3.0, (1, 3, 12, 4, 3, 2)),
        ({P: 1, S: 4, L: 16, W: 20}, 25, 9.0, (1, 3, 12, 4, 5, 0)),  # never more than it took
        ({P: 1, S: 1, W: 20}, 25, 0.0, (1, 0, 19, 0, 0, 5)),  # loading was too quick to be seen
        ({P: 1, S: 2}, 3, 0.0, (1, 1, 1, 0, 0, 0)),
        ({}, 3, 0.0, (0, 0, 3, 0, 0, 0)),
    ],
)
def test_the_parts_of_a_start_sum_to_the_whole(reached, ready, capture, parts):
    instants = {str(state): after(seconds) for state, seconds in reached.items()}
    found = starts.parts_of_start(instants, AT, after(ready), capture)
    assert tuple(found.values()) == parts
    assert sum(found.values()) == ready


@pytest.fixture
def replica(db, tmp_path):
    node = a_node(at=AT)
    device = a_device(node, 64 * GIB, at=AT, kind="gpu", name="Card", uuid="GPU-1")
    arguments = {"max_model_len": 2048}
    version = a_version(engine={"kind": "vllm", "version": "0.32.0"}, arguments=arguments)
    replica = a_replica(a_deployment(version=version), node, at=AT, kv_tokens=1_048_576)
    span = NumericRange(0, 20 * GIB)
    Reservation.objects.create(device=device, replica=replica, memory=span)
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    write_headers(tmp_path / "model.safetensors", decoder(2, 128, 256, 261, 128))
    launch.measure(version, tmp_path, at=AT)
    return replica


def test_a_start_is_written_down_once(replica):
    for _ in range(2):
        starts.at_ready(replica, Startup(capture_seconds=1.0), at=replica.created_at)
    assert ColdStart.objects.count() == 1
    assert VersionPeak.objects.get().launches == 1


def test_the_median_of_the_last_starts_is_told_to_held_calls(replica):
    for number, seconds in enumerate((500, 40, 60, 50, 45, 55)):
        other = a_replica(replica.deployment, at=AT, generation=number + 2)
        ColdStart.objects.create(
            replica=other,
            version=replica.version,
            at=after(number),
            **dict.fromkeys(cold_starts.PARTS, 0.0) | {"load_seconds": seconds},
        )
    found = cold_starts.cold_starts([replica.version_id])[replica.version_id]
    assert (found.seconds, found.starts) == (50, 5)
    who = {"by": "t", "reason": "t", "at": AT}
    save_route(RouteWanted("chat", (TargetWanted(replica.deployment.name, 1),)), **who)
    routes = compiler.compile_part(Part.ROUTES, 1)
    assert routes.routes["chat"].start_seconds == 50


def test_who_waits_for_a_sleeper_is_told_how_long_it_takes_to_wake(replica):
    who = {"by": "t", "reason": "t", "at": AT}
    save_route(RouteWanted("chat", (TargetWanted(replica.deployment.name, 1),)), **who)
    starts.at_ready(replica, Startup(), at=replica.created_at)

    def told():
        return compiler.compile_part(Part.ROUTES, 1).routes["chat"].start_seconds

    cold = told()
    replica.move(ReplicaState.DRAINING, **who, sleep_level=1)
    replica.move(ReplicaState.ASLEEP, **who)
    assert told() == cold  # it has never woken yet
    for number, seconds in enumerate((90, 3, 5, 4, 6, 2)):
        WakeUp.objects.create(
            replica=replica, version=replica.version, seconds=seconds, at=after(number)
        )
    assert told() == 4
    replica.move(ReplicaState.WAKING, **who)
    assert told() == 4
    replica.move(ReplicaState.WARMING, **who)
    replica.move(ReplicaState.READY, **who)
    assert told() == cold


def test_what_the_engine_said_of_its_memory_is_the_next_estimate(replica):
    before = fixed_bytes(replica)
    said = Startup(
        weights_bytes=MIB, consumed_bytes=700 * MIB, activation_bytes=50 * MIB, graph_bytes=0
    )
    starts.at_ready(replica, said, at=AT)
    assert fixed_bytes(replica) == 750 * MIB < before


def test_what_the_driver_sees_raises_the_estimate_by_what_is_no_cache(replica):
    # 1,048,576 tokens of 1,024 bytes are its cache: 1 GiB.
    before = fixed_bytes(replica)
    starts.note_use(replica, before + 2 * GIB // 10 + GIB, 3 * GIB, at=AT)
    starts.note_use(replica, before + GIB, 2 * GIB, at=AT)  # less, later: the peak stays
    peak = VersionPeak.objects.get()
    assert peak.beside_kv_bytes == before + 2 * GIB // 10
    assert peak.host_bytes == 3 * GIB
    assert fixed_bytes(replica) == peak.beside_kv_bytes


def test_who_measures_a_version_second_in_one_moment_makes_no_error(replica):
    """The database writes a line for each key that is refused: four engines begin at once."""
    with CaptureQueriesContext(connection) as said:
        starts.note_use(replica, 3 * GIB, GIB, at=AT)
    [made] = [one["sql"] for one in said if "INSERT" in one["sql"]]
    assert "ON CONFLICT DO NOTHING" in made
    with CaptureQueriesContext(connection) as said:
        starts.note_use(replica, 4 * GIB, GIB, at=AT)
    assert not [one for one in said if "INSERT" in one["sql"]]


def test_nothing_is_noted_of_an_engine_that_does_not_say_its_cache(replica):
    replica.kv_tokens = None
    starts.note_use(replica, 9 * GIB, GIB, at=AT)
    assert not VersionPeak.objects.exists()
