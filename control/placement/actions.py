"""The ledger of device memory: booked with a launch, released when its processes are gone."""

from collections.abc import Mapping
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.backends.postgresql.psycopg_any import NumericRange
from django.db.models import QuerySet

from control.models import Node, Replica, Reservation
from control.models.audit import record
from control.placement import books, guard, neighbours, room, rules
from control.placement.world import Need, NodeFacts, Placed, Share, Unplaced
from control.states import REPLICA_LIVE, ReplicaState, ReservationState


def book(replica: Replica, shares: tuple[Share, ...]) -> None:
    """Call inside the transaction that makes the launch: IntegrityError means another was first."""
    Reservation.objects.bulk_create(
        Reservation(device_id=share.device_id, replica=replica, memory=NumericRange(*bounds))
        for share in sorted(shares, key=lambda share: share.device_id)
        for bounds in share.ranges
    )


def book_ram(replica: Replica, count: int, *, at: datetime, is_taken: bool = False) -> None:
    """Beside its cards, of their host. Call before `book`, of which it is a part.

    `is_taken`: it holds them already, so that its host does not show them as free.
    """
    node = lock_ram(replica.node_id)
    known = books.ram_of(node, at)
    if is_taken:
        known["ram_available_bytes"] = None
    free = room.ram_free_bytes(NodeFacts(node.pk, node.name, **known))
    if free is not None and count > free:
        raise IntegrityError(f"{node} gave its RAM to another launch in this moment")
    Replica.objects.filter(pk=replica.pk).update(host_booked_bytes=count)


def lock_ram(node_id: int) -> Node:
    """First of all that a transaction locks which will book RAM there: else two may wait for each
    other. Rows that name the node can be written meanwhile."""
    return Node.objects.select_for_update(no_key=True).get(pk=node_id)


def release(replica: Replica, *, at: datetime) -> int:
    """Only when the node has seen the processes gone. Twice does no harm."""
    return _release(Reservation.objects.filter(replica=replica), at)


def shrink(replica: Replica, left: Mapping[str, int], ram_bytes: int, *, at: datetime) -> None:
    """A sleeper keeps a booking for what its cards still hold, and one of RAM for its weights.

    Call inside the transaction that moves it: IntegrityError means that its host has not so much.
    """
    rows = Reservation.objects.filter(replica=replica, state=ReservationState.HELD)
    held = list(rows.select_related("device").order_by("device_id", "memory"))
    release(replica, at=at)
    missing = dict(left)
    for row in held:
        count = min(missing.get(row.device.uuid, 0), row.memory_bytes)
        missing[row.device.uuid] = missing.get(row.device.uuid, 0) - count
        if count:
            span = NumericRange(row.memory.lower, row.memory.lower + count)
            Reservation.objects.create(device=row.device, replica=replica, memory=span)
    Replica.objects.filter(pk=replica.pk).update(host_booked_bytes=0)
    book_ram(replica, replica.host_booked_bytes + ram_bytes, at=at, is_taken=True)


def restore(replica: Replica, *, at: datetime) -> None:
    """What it held before it slept. As `book`: IntegrityError means that another has it now."""
    release(replica, at=at)
    Reservation.objects.bulk_create(
        Reservation(device_id=device_id, replica=replica, memory=NumericRange(lower, upper))
        for device_id, lower, upper in sorted(replica.awake["booked"])
    )
    host_bytes = replica.awake["host_booked_bytes"]
    Replica.objects.filter(pk=replica.pk).update(host_booked_bytes=host_bytes)


def release_node(node: Node, *, at: datetime) -> int:
    """When a person says that the node will not return: nobody is left to see its processes."""
    return _release(Reservation.objects.filter(device__node=node), at)


def rebook(replica: Replica, need: Need, *, at: datetime) -> Placed | Unplaced:
    """Change a launch's booking to what its files turned out to need, on the same devices."""
    try:
        with transaction.atomic():
            lock_ram(replica.node_id)
            # One at a time for a launch: a task and the watch may measure in the same moment, and
            # the second must see what the first has booked.
            Replica.objects.select_for_update().get(pk=replica.pk)
            held = Reservation.objects.filter(replica=replica, state=ReservationState.HELD)
            device_ids = sorted(set(held.values_list("device_id", flat=True)))
            release(replica, at=at)
            # An old reading does not matter: the launch is on the device already.
            devices = books.devices(device_ids)
            node = NodeFacts(
                replica.node_id,
                replica.node.name,
                devices=devices,
                **books.ram_of(replica.node, at),
            )
            found = rules.on_these(need, node)
            if isinstance(found, Unplaced):
                transaction.set_rollback(True)
                return found
            book_ram(replica, found.host_bytes, at=at)
            book(replica, found.shares)
            booked_for = {"room": found.room, "kv_bytes": found.kv_bytes}
            Replica.objects.filter(pk=replica.pk).update(**booked_for)
    except IntegrityError:
        return Unplaced({replica.node.name: "gave the memory to another launch in this moment"})
    replica.room, replica.kv_bytes = found.room, found.kv_bytes
    return found


def part_neighbours(*, by: str, at: datetime) -> list[int]:
    """Mark which move away from a card where one misses its objective; one of a deployment.

    Reconcile places a successor elsewhere first, and then drains what is marked. While none has
    been found a mark is taken back once all on the card fare well again.
    """
    marked = []
    for card, found in neighbours.on_shared_cards(at).items():
        for neighbour in guard.recovered(found):
            stay(neighbour.replica_id, f"all on {card} fare well again", by=by, at=at)
        if (move := guard.judge(card, found)) and leave(move.replica_id, move.reason, by=by, at=at):
            marked.append(move.replica_id)
    return marked


def leave(replica_id: int, reason: str, *, by: str, at: datetime) -> bool:
    """Have a ready replica replaced, successor first; False if one of its deployment is already."""
    with transaction.atomic():
        replica = Replica.objects.select_related("deployment").filter(pk=replica_id).first()
        if replica is None:
            return False
        twins = Replica.objects.select_for_update().filter(deployment=replica.deployment_id)
        live = list(twins.filter(state__in=REPLICA_LIVE).order_by("pk"))
        if any(twin.leaving for twin in live):
            return False
        rows = Replica.objects.filter(pk=replica_id, state=ReplicaState.READY)
        if not rows.update(leaving=reason):
            return False
        record("replace replica", str(replica), by=by, reason=reason, at=at)
    return True


def stay(replica_id: int, reason: str, *, by: str, at: datetime) -> bool:
    """Take back that a ready replica is to be replaced; False if it goes already."""
    with transaction.atomic():
        rows = Replica.objects.filter(pk=replica_id, state=ReplicaState.READY).exclude(leaving="")
        replica = rows.select_for_update(of=("self",)).select_related("deployment").first()
        if replica is None:
            return False
        before, replica.leaving = replica.leaving, ""
        replica.save(update_fields=["leaving"])
        change = ({"leaving": before}, None)
        record("keep replica", str(replica), by=by, reason=reason, at=at, change=change)
    return True


def _release(rows: QuerySet[Reservation], at: datetime) -> int:
    held = rows.filter(state=ReservationState.HELD)
    return held.update(state=ReservationState.RELEASED, released_at=at)
