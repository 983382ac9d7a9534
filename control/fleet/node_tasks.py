"""What a node does with one launch: prepare, start, stop; each may run twice and late."""

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

from celery import shared_task
from django.conf import settings
from django.db import DatabaseError, transaction
from django.utils import timezone

from control.fleet import devices, engine_http, launch, orders, ports
from control.fleet.disk import files
from control.fleet.draining import facts as draining_facts
from control.fleet.draining import rules as draining_rules
from control.fleet.sleeping import falling
from control.models import IllegalMove, Replica, Reservation
from control.placement import actions as placement
from control.placement.world import Unplaced
from control.states import REPLICA_FINAL, REPLICA_ON_NODE, ReplicaState, ReservationState
from control.telemetry.sample import Unread
from engines import gpu, runtime, supervisor, weights
from engines.kinds import KINDS
from engines.model_folder import BadModel
from engines.spec import BadSpec, EngineLoad, Install

STOP_GRACE_SECONDS = 15
STARTING_STOP_GRACE_SECONDS = 5  # an engine that starts loses SIGTERM: it is killed after this
DETAIL_CHARACTERS_MAX = 1000
PHASE_CHARACTERS_MAX = 64
DRAIN_AT_STOP_SECONDS_MAX = 30
STOPS_AT_ONCE = 8

log = logging.getLogger(__name__)


@shared_task(name=orders.PREPARE)
def prepare_replica(replica_id: int) -> None:
    """One look: engine installed, weights here, memory booked by measure; then start."""
    replica, at = mine(replica_id), timezone.now()
    if replica is None or replica.state not in (ReplicaState.PLACED, ReplicaState.PREPARING):
        return
    if replica.state == ReplicaState.PLACED and not replica.move(
        ReplicaState.PREPARING, reason=f"taken by node {replica.node}", by=by(), at=at
    ):
        return
    ready = _files(replica, at)
    if ready and _memory(replica, ready[1], at):
        start_replica(replica_id)


@shared_task(name=orders.START)
def start_replica(replica_id: int) -> None:
    """Launch the engine and return; what becomes of it is seen by the watch."""
    replica, at = mine(replica_id), timezone.now()
    if replica is None or replica.state != ReplicaState.PREPARING:
        return
    files = _files(replica, at)
    if files is None:
        return
    try:
        if launch.claim(replica, by=by(), reason="its files are here", at=at):
            _launch(replica, *files)
    except (ports.NoPort, BadSpec, supervisor.EngineError, OSError) as error:
        retry = not isinstance(error, BadSpec)
        fail(replica, "launch", str(error), retry=retry, at=timezone.now())


def take_another_port(replica_id: int) -> bool:
    """Its port was taken by another process between our look and its own: it begins again."""
    replica, at = mine(replica_id), timezone.now()
    if replica is None or replica.state != ReplicaState.STARTING:
        return False
    files = _files(replica, at)
    gone = supervisor.begin_anew(launch.folder_of(replica), STARTING_STOP_GRACE_SECONDS).gone
    if files is None or not gone or not ports.take_another(replica, by=by(), at=at):
        return False
    try:
        _launch(replica, *files)
    except (BadSpec, supervisor.EngineError, OSError) as error:
        fail(replica, "launch", str(error), at=timezone.now())
    return True


@shared_task(name=orders.STOP)
def stop_replica(replica_id: int) -> None:
    """Stop what drains and is idle, or what has failed; give its memory back when it is gone."""
    replica, at = mine(replica_id), timezone.now()
    if replica is None or not _may_stop(replica, at):
        return
    falls = replica.sleep_level and replica.state == ReplicaState.DRAINING
    if falls and falling.fall_asleep(replica, load_of(replica), by=by(), at=at):
        return
    hears = replica.ready_at is not None and replica.cause != "hung"
    grace = STOP_GRACE_SECONDS if hears else STARTING_STOP_GRACE_SECONDS
    try:
        stopped = supervisor.stop(launch.folder_of(replica), grace)
    except supervisor.Busy as error:
        log.warning("replica %s: %s", replica, error)
        return
    if reason := _still_held(replica, stopped):
        Replica.objects.filter(pk=replica.pk).exclude(reason=reason).update(reason=reason)
        return
    _ended(replica, timezone.now())


def _still_held(replica: Replica, stopped: supervisor.Stopped) -> str:
    """Why its memory may not be offered again, processes and the driver having been asked."""
    if not stopped.gone:
        return f"processes {stopped.left_pids} cannot be ended: their memory stays booked"
    held = Reservation.objects.filter(replica=replica, state=ReservationState.HELD)
    uuids = set(held.filter(device__kind="gpu").values_list("device__uuid", flat=True))
    ghosts = devices.ghosts(gpu.read(), uuids, stopped.seen_pids) if uuids else ()
    if ghosts:
        return f"the driver still shows processes {ghosts}, which have ended: it stays booked"
    return ""


def _ended(replica: Replica, at: datetime) -> None:
    with transaction.atomic():
        kept = (replica.awake or {}).get("kept")
        why = f"stopped instead of put to sleep, for {kept}" if kept else "its calls ended"
        if replica.state == ReplicaState.DRAINING and not replica.move(
            ReplicaState.STOPPED, reason=f"{why}; its processes are gone", by=by(), at=at
        ):
            return
        placement.release(replica, at=at)
    files.let_go(replica.pk)


def _may_stop(replica: Replica, at: datetime) -> bool:
    if replica.state in REPLICA_FINAL:
        held = Reservation.objects.filter(replica=replica, state=ReservationState.HELD)
        return held.exists() or supervisor.adopt(launch.folder_of(replica)) is not None
    return replica.state == ReplicaState.DRAINING and _is_drained(replica, at)


def _is_drained(replica: Replica, at: datetime) -> bool:
    """Unrouted by every gateway first, then idle, or past the limit."""
    load = load_of(replica) if replica.ready_at else None
    draining = draining_rules.Draining(
        since=replica.state_at,
        by=replica.drain_by,
        unrouted_version=replica.unrouted_version,
        has_served=replica.ready_at is not None,
        is_alive=supervisor.adopt(launch.folder_of(replica)) is not None,
        engine_calls=load.running + load.waiting if load else None,
    )
    match draining_rules.judge(draining, draining_facts.gateways(replica.pk), at):
        case draining_rules.Stop(reason=reason):
            log.info("replica %s is stopped: %s", replica, reason)
            return True
        case draining_rules.Wait(reason=reason) if replica.phase != reason[:PHASE_CHARACTERS_MAX]:
            shown = {"phase": reason[:PHASE_CHARACTERS_MAX]}
            Replica.objects.filter(pk=replica.pk, state=replica.state).update(**shown)
    return False


def load_of(replica: Replica) -> EngineLoad | None:
    """What it does now; None if it does not say."""
    page = engine_http.metrics(engine_http.address(replica))
    if isinstance(page, Unread):
        return None
    return KINDS[replica.version.engine["kind"]].parse_metrics(page)


def _files(replica: Replica, at: datetime) -> tuple[Path, str] | None:
    """The engine's environment and the model's folder; None while they are on their way."""
    engine = replica.version.engine
    installed = files.ensure_runtime(replica.node, engine, launch.device_kind(replica))
    what = f"installs {engine['kind']} {engine.get('version', '')}"
    if not _arrived(replica, "runtime", what, installed, at):
        return None
    if not replica.version.source:
        return Path(installed.path), ""
    version, path = replica.version, Path(installed.path)
    fetched = files.ensure_weights(version.source, version.unsafe, path, holder=replica)
    if not _arrived(replica, "weights", f"fetches {replica.version}", fetched, at):
        return None
    return Path(installed.path), fetched.path


def _arrived(replica: Replica, cause: str, what: str, found: Install, at: datetime) -> bool:
    if found.state == "done":
        return True
    if found.state == "failed":
        fail(replica, cause, found.detail, retry=True, at=at)
        return False
    progress = {
        "phase": what[:PHASE_CHARACTERS_MAX],
        "progress_percent": found.percent,
        "reason": f"{what}: {found.detail}"[:DETAIL_CHARACTERS_MAX],
    }
    # Written when it moved: the instant of the last change is what a stall is measured by.
    Replica.objects.filter(pk=replica.pk, state=replica.state).exclude(**progress).update(
        **progress, progress_at=at
    )
    return False


def _memory(replica: Replica, folder: str, at: datetime) -> bool:
    """Replace the guess of placement by what the files say; fail if that does not fit."""
    try:
        if not folder or launch.measure(replica.version, Path(folder), at=at) is None:
            return True
    except BadModel as error:
        fail(replica, "weights", str(error), retry=True, at=at)
        return False
    booked = launch.book_what_was_measured(replica, at=at)
    if isinstance(booked, Unplaced):
        fail(replica, "memory_estimate", f"measured: {booked}", retry=True, at=at)
        return False
    return True


def _launch(replica: Replica, runtime_path: Path, weights_path: str) -> None:
    spec = launch.specification(replica, weights_path)
    command = KINDS[spec.kind].build_command(spec, runtime_path, settings.WEIR_NODE_ENVIRONMENT)
    folder = launch.folder_of(replica)
    record = supervisor.launch(spec, command, folder, str(settings.WEIR_HOME))
    written = Replica.objects.filter(pk=replica.pk).exclude(state__in=REPLICA_FINAL)
    if not written.update(pid=record.pid, phase="starting", progress_percent=5):
        # It was given up while it was launched: nobody else would end it soon.
        supervisor.stop(folder, 0)


def fail(replica: Replica, cause: str, reason: str, *, at: datetime, retry: bool = True) -> None:
    """What is left of it is ended at once; its memory is given back when it is gone."""
    try:
        replica.move(ReplicaState.FAILED, reason=reason, by=by(), at=at, cause=cause, retry=retry)
    except IllegalMove:
        return
    stop_replica(replica.pk)


def mine(replica_id: int) -> Replica | None:
    """A late message may name a launch that is on another node, or is gone."""
    rows = Replica.objects.select_related("node", "deployment", "version__model")
    return rows.filter(pk=replica_id, node__name=settings.WEIR_NODE_NAME).first()


def by() -> str:
    return f"node {settings.WEIR_NODE_NAME}"


def stop_engines(*, reason: str, at: datetime) -> set[int]:
    """All engines of this home and what is being fetched for them, also when the database is
    away; returns pids that stay."""
    runtime.stop_installers(settings.WEIR_RUNTIMES)
    weights.stop_fetches(settings.WEIR_WEIGHTS)
    draining = _drain_all(reason, at)
    deadline = time.monotonic() + DRAIN_AT_STOP_SECONDS_MAX
    while time.monotonic() < deadline and any(map(_has_calls, draining)):
        time.sleep(0.2)
    folders = sorted((settings.WEIR_HOME / "engines").glob("replica-*"))
    starting = {launch.folder_of(replica) for replica in draining if replica.ready_at is None}

    def stop(folder: Path) -> supervisor.Stopped:
        grace = STARTING_STOP_GRACE_SECONDS if folder in starting else STOP_GRACE_SECONDS
        return supervisor.stop(folder, grace)

    with ThreadPoolExecutor(STOPS_AT_ONCE) as pool:
        ends = list(pool.map(stop, folders))
    left = {folder: end.left_pids for folder, end in zip(folders, ends, strict=True)}
    for replica in draining:
        if not left.get(launch.folder_of(replica)):
            _ended(replica, at)
    return {pid for pids in left.values() for pid in pids}


def _drain_all(reason: str, at: datetime) -> list[Replica]:
    """Rows say first that they drain, so that no gateway sends another call."""
    rows = Replica.objects.select_related("node", "deployment", "version__model")
    until = at + timedelta(seconds=DRAIN_AT_STOP_SECONDS_MAX)
    try:
        own = list(rows.filter(node__name=settings.WEIR_NODE_NAME, state__in=REPLICA_ON_NODE))
        for replica in own:
            if replica.state != ReplicaState.DRAINING:
                replica.move(ReplicaState.DRAINING, reason=reason, by=by(), at=at, drain_by=until)
    except DatabaseError as error:
        log.warning("engines are stopped without telling the database: %s", error)
        return []
    return own


def _has_calls(replica: Replica) -> bool:
    load = load_of(replica) if replica.ready_at else None
    return load is not None and load.running + load.waiting > 0
