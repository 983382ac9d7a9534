"""Puts a drained engine to sleep, on its node: asked once, believed when its cards are free."""

from datetime import datetime
from threading import Lock

from django.db import IntegrityError, transaction

from control.fleet import devices, engine_http, launch, turns
from control.fleet.sleeping import rules
from control.fleet.sleeping.rules import Asleep, Kept, Waits
from control.models import Replica, Reservation, SnapshotPart, Version
from control.placement import actions as placement
from control.placement import facts as placement_facts
from control.placement.room import gib
from control.states import Part, ReplicaState, ReservationState
from engines import gpu, host, supervisor
from engines.spec import EngineLoad, GpuReading

_turn = Lock()
_busy: set[int] = set()  # a hint and the watch may come in the same moment; all in one process


def fall_asleep(replica: Replica, load: EngineLoad | None, *, by: str, at: datetime) -> bool:
    """False: it has to be stopped instead, and its row says why."""
    with _turn:
        if replica.pk in _busy:
            return True
        _busy.add(replica.pk)
    try:
        replica.refresh_from_db(fields=["state", "awake", "sleep_level", "host_booked_bytes"])
        if replica.state != ReplicaState.DRAINING or not replica.sleep_level:
            return True  # it has moved on: the next look sees
        found = _asked(replica, load, at)
        if isinstance(found, Asleep):
            found = _sleeps(replica, found, by=by, at=at)
        if isinstance(found, Kept):
            _keep(replica, found.reason)
        return not isinstance(found, Kept)
    finally:
        _busy.discard(replica.pk)


def held_now(replica: Replica, readings: list[GpuReading], uuids: tuple[str, ...]) -> dict:
    """Device → bytes of its processes; None of one that cannot be read."""
    record = supervisor.adopt(launch.folder_of(replica))
    pids = {process.pid for process in supervisor.members(record)} if record else set()
    used = devices.used_by(readings, pids)
    good = {one.uuid for one in readings if not one.error and one.memory_free_bytes is not None}
    return {uuid: used.get(uuid) if uuid in good else None for uuid in uuids}


def _asked(replica: Replica, load: EngineLoad | None, at: datetime) -> Asleep | Waits | Kept:
    if replica.awake is None:
        uuids = launch.device_uuids(replica) if launch.device_kind(replica) == "gpu" else ()
        held = held_now(replica, gpu.read(), uuids)
        if why := _why_not(replica, load, held):
            return Kept(why)
        if turns.is_awaited(replica, at=at):
            return Waits()  # an engine that measures must not see memory come back there
        _remember(replica, {uuid: size or 0 for uuid, size in held.items()})
    if "answered_at" not in replica.awake:
        # Twice does no harm: whoever asked before may have been killed.
        answer = engine_http.sleep(engine_http.address(replica), replica.sleep_level)
        if not answer.good:
            return Kept(answer.reason)
        _write(replica, replica.awake | {"answered_at": at.isoformat()})
    held, answered_at = replica.awake["held"], replica.awake["answered_at"]
    now = held_now(replica, gpu.read(), tuple(held))
    return rules.judge(held, now, datetime.fromisoformat(answered_at), at)


def _why_not(replica: Replica, load: EngineLoad | None, held: dict[str, int | None]) -> str:
    if not held:
        return rules.TRAP
    if supervisor.adopt(launch.folder_of(replica)) is None:
        return "its process has ended"
    if load is None or load.running or load.waiting:
        return "its time to drain was over, and its calls were not"
    weights = _weights_bytes(replica.version) or sum(size or 0 for size in held.values())
    return rules.short_of_ram(weights, host.memory_bytes()[1])


def _weights_bytes(version: Version) -> int | None:
    """None while its files have not been read."""
    measured = getattr(version, "measure", None) is not None
    return placement_facts.known_cost(version)[0] if measured else None


def _remember(replica: Replica, held: dict[str, int]) -> None:
    """Before it is asked: whoever looks after it next must know what it held."""
    rows = Reservation.objects.filter(replica=replica, state=ReservationState.HELD).order_by("pk")
    booked = [[row.device_id, row.memory.lower, row.memory.upper] for row in rows]
    known = {"held": held, "booked": booked, "host_booked_bytes": replica.host_booked_bytes}
    _write(replica, known)


def _write(replica: Replica, awake: dict) -> None:
    replica.awake = awake
    Replica.objects.filter(pk=replica.pk, state=ReplicaState.DRAINING).update(awake=awake)


def _sleeps(replica: Replica, found: Asleep, *, by: str, at: datetime) -> Asleep | Kept:
    """Its booking shrinks to what is left; weights in RAM are booked there."""
    held = replica.awake["held"]
    weights = _weights_bytes(replica.version) or sum(held.values())
    left, before = sum(found.left_bytes.values()), sum(held.values())
    reason = f"sleeps: its cards hold {gib(left)} of {gib(before)}, its host {gib(weights)}"
    awake = replica.awake | {"asleep": True}
    try:
        with transaction.atomic():
            moved = {"reason": reason, "by": by, "at": at, "awake": awake, "phase": "asleep"}
            if replica.move(ReplicaState.ASLEEP, **moved):
                booked = {
                    uuid: size + rules.MARGIN_BYTES for uuid, size in found.left_bytes.items()
                }
                placement.shrink(replica, booked, weights, at=at)
                SnapshotPart.raise_version(Part.ROUTES)  # what held calls are told is another
    except IntegrityError as error:
        replica.refresh_from_db()
        return Kept(str(error).splitlines()[0])
    return found


def _keep(replica: Replica, reason: str) -> None:
    replica.awake = (replica.awake or {}) | {"kept": reason}
    replica.sleep_level = rules.OFF
    rows = Replica.objects.filter(pk=replica.pk, state=ReplicaState.DRAINING)
    rows.update(awake=replica.awake, sleep_level=rules.OFF, reason=f"is stopped, for {reason}")
