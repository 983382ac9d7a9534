"""What a launch on this node is made of: its folder, port, key, memory and specification."""

import secrets
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction

from control.fleet import ports, turns
from control.fleet.scaling import scaling_of
from control.models import Replica, Reservation, Version, VersionMeasure
from control.models.sealing import seal, unseal
from control.placement import actions as placement
from control.placement import facts as placement_facts
from control.placement import memory, model, overrides
from control.placement import room as rooms
from control.placement.weights import Tensor
from control.placement.world import Placed, Room, Unplaced
from control.states import ReplicaState, ReservationState
from engines import model_folder
from engines.kinds import KINDS
from engines.spec import EngineSpec

OTHER_WEIGHTS = model_folder.PICKLES


def folder_of(replica: Replica) -> Path:
    return settings.WEIR_HOME / "engines" / f"replica-{replica.pk}"


def measure(version: Version, weights: Path, *, at: datetime) -> VersionMeasure | None:
    """What the files say, written once for all launches of the version; None without files."""
    if not (weights / "config.json").exists():
        return None
    known = VersionMeasure.objects.filter(version=version).exclude(facts=None).first()
    if known is None:
        known = _measured(version, weights, at)
    version.measure = known
    return known


def _measured(version: Version, weights: Path, at: datetime) -> VersionMeasure:
    rows = model_folder.tensors(weights)
    read = None if rows is None else [Tensor(*row) for row in rows]
    facts = model.read(model_folder.config(weights), read, version.arguments)
    sizes = (sum(file.stat().st_size for file in weights.glob(kind)) for kind in OTHER_WEIGHTS)
    stored = {
        # A format without headers is loaded as it lies there.
        "weights_bytes": facts.weights.total_bytes if rows else max(sizes),
        "kv_cost": facts.kv.to_dict(),
        "facts": facts.to_dict() if rows else None,
        "measured_at": at,
    }
    # Several nodes may measure in one moment: the last is as good as the first.
    VersionMeasure.objects.bulk_create(
        [VersionMeasure(version=version, **stored)],
        update_conflicts=True,
        unique_fields=["version"],
        update_fields=list(stored),
    )
    return VersionMeasure.objects.get(version=version)


def book_what_was_measured(replica: Replica, *, at: datetime) -> Placed | Unplaced | None:
    """None: what is booked already lies between the least and all that is wanted."""
    held = _held(replica)
    if not held:
        return None  # it has failed meanwhile, and gave its memory back
    need = placement_facts.need(replica.version, replica.deployment)
    size = need.sizes[held[0].device.kind]
    kv = _kv_bytes(replica, held)
    most = size.kv_bytes if replica.room != Room.OWN else kv
    if size.kv_bytes_min <= kv <= most and _has_margin(replica, held, size.fixed_bytes + kv):
        return None
    return placement.rebook(replica, need, at=at)


def _has_margin(replica: Replica, held: list[Reservation], needed: int) -> bool:
    if replica.room != Room.SHARED:
        return True
    least, most = (int(needed * factor) for factor in (rooms.SHARED_FACTOR, rooms.BESIDE_FACTOR))
    return all(least <= booked <= most + 1 for booked in _bytes_by_device(held).values())


def claim(replica: Replica, *, by: str, reason: str, at: datetime) -> bool:
    """STARTING, with a port and a key of its own; False if another worker was first."""
    with transaction.atomic():
        if turns.waits_for(replica, at=at):
            return False  # looked at again in a second
        return _claim(replica, by=by, reason=reason, at=at)


def _claim(replica: Replica, *, by: str, reason: str, at: datetime) -> bool:
    key = secrets.token_urlsafe(32)
    for port in ports.free(replica):
        try:
            return replica.move(
                ReplicaState.STARTING,
                reason=reason,
                by=by,
                at=at,
                host=settings.WEIR_NODE_ADDRESS,
                port=port,
                slots=slots_of(replica),
                engine_key=seal(key),
                progress_at=at,
            )
        except IntegrityError:
            continue  # another launch took the port between our look and our move
    raise ports.NoPort(
        f"no free port in {settings.WEIR_ENGINE_PORTS}: are old engines still running?"
    )


def specification(replica: Replica, weights: str) -> EngineSpec:
    held = _held(replica)
    version, kind = replica.version, held[0].device.kind
    return EngineSpec(
        replica_id=replica.pk,
        generation=replica.generation,
        kind=version.engine["kind"],
        version=version.engine.get("version", ""),
        served_name=version.served_name,
        weights=weights,
        host=replica.host,
        port=replica.port or 0,
        api_key=unseal(replica.engine_key) if replica.engine_key else "",
        device_kind=kind,
        device_uuids=tuple(_bytes_by_device(held)) if kind == "gpu" else (),
        **_memory(replica, held),
        slots=replica.slots,
        sleep=kind == "gpu" and bool(scaling_of(replica.deployment.scaling).sleep),
        arguments=_arguments(replica),
        unsafe=tuple(version.unsafe or ()),
    )


def _arguments(replica: Replica) -> dict:
    """The version's own, and what its failures taught, as far as its engine knows that."""
    version = replica.version
    cured = overrides.in_force(version, replica.deployment).arguments()
    known = KINDS[version.engine["kind"]].arguments
    return {**version.arguments, **{name: it for name, it in cured.items() if name in known}}


def device_kind(replica: Replica) -> str:
    held = _held(replica)
    return held[0].device.kind if held else "cpu"


def device_uuids(replica: Replica) -> tuple[str, ...]:
    return tuple(_bytes_by_device(_held(replica)))


def slots_of(replica: Replica) -> int:
    arguments = overrides.arguments(replica.version, replica.deployment)
    demand = memory.demand_of(arguments, replica.version.memory)
    held = _held(replica)
    size = _size(replica, held)
    return memory.slots(_kv_bytes(replica, held), size, demand)


def _kv_bytes(replica: Replica, held: list[Reservation]) -> int:
    """Of a shared card as placed; else what of its budget is neither weights nor overhead."""
    if replica.room == Room.SHARED and replica.kv_bytes is not None:
        return replica.kv_bytes
    booked = _bytes_by_device(held)
    if replica.room == Room.OWN:
        booked = {it.device.uuid: int(it.device.memory_total_bytes * _own_ratio(it)) for it in held}
    return min(booked.values()) - _size(replica, held).fixed_bytes


def _memory(replica: Replica, held: list[Reservation]) -> dict:
    """What the engine is told: never its own default, which takes nearly all of any card."""
    kv = _kv_bytes(replica, held) or None
    if replica.room == Room.OWN:
        return {"memory_ratio": min(map(_own_ratio, held))}
    if replica.room != Room.SHARED:
        return {"kv_cache_bytes": kv}
    totals = {row.device.uuid: row.device.memory_total_bytes for row in held}
    booked = _bytes_by_device(held)
    # At its start the engine looks for this share of the card, though its cache is fixed.
    ratio = min(booked[uuid] / total for uuid, total in totals.items())
    return {"kv_cache_bytes": kv, "memory_ratio": int(ratio * 10_000) / 10_000}


def _own_ratio(row: Reservation) -> float:
    return rooms.own_ratio(row.device.memory_total_bytes, row.device.foreign_bytes)


def _size(replica: Replica, held: list[Reservation]) -> memory.Sizes:
    need = placement_facts.need(replica.version, replica.deployment)
    return need.sizes[held[0].device.kind]


def _held(replica: Replica) -> list[Reservation]:
    rows = Reservation.objects.filter(replica=replica, state=ReservationState.HELD)
    return list(rows.select_related("device").order_by("device__index", "pk"))


def _bytes_by_device(held: list[Reservation]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in held:
        found[row.device.uuid] = found.get(row.device.uuid, 0) + row.memory_bytes
    return found
