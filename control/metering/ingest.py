"""Ships spools into the database: each admitted call ends in exactly one usage event."""

import gc
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.db import connection, transaction

from control.metering import backlog, budgets, events, traces, watermarks
from control.metering.backlog import Batch
from control.metering.contents import content_hash
from control.metering.drift import attempts
from control.metering.records import line_of
from control.metering.segments import locked, owners
from control.models import SpoolPosition

BATCH_LINES_MAX = 30_000  # of a backlog: some ten thousand calls, some 50 MiB while it is stored
BATCHES_MAX = 8  # of one owner in one call, so that no owner starves the others
SHIPPER = ".shipper"
UNSTORABLE = "calls"  # + .bad
OWNER_CHARACTERS_MAX = 190
COUNT_REFUSALS = (  # in a fixed order, so that two shippers never wait for each other
    "INSERT INTO control_refusalcount (tenant_name, key_id, code, minute, count)"
    " SELECT * FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::timestamptz[], %s::int[])"
    " ON CONFLICT (tenant_name, key_id, code, minute)"
    " DO UPDATE SET count = control_refusalcount.count + excluded.count"
)

Step = Callable[[str], None]


@dataclass(frozen=True)
class Shipped:
    """What one call stored: events (lost ones among them), refusals; lines it left behind."""

    events: int = 0
    lost: int = 0
    refused: int = 0
    left: int = 0

    def __add__(self, other: "Shipped") -> "Shipped":
        return Shipped(
            self.events + other.events,
            self.lost + other.lost,
            self.refused + other.refused,
            self.left + other.left,
        )


Tell = Callable[[Batch], None]


def tell_nobody(batch: Batch) -> None:
    """Called with what is stored, in case somebody else wants to know of it."""


def no_step(name: str) -> None:
    """Called between the steps of shipping; tests break off there."""


def ship(
    directory: Path,
    live_owners: Collection[str],
    at: datetime,
    step: Step = no_step,
    tell: Tell = tell_nobody,
) -> Shipped:
    """Store what is new in all spools. May be broken off anywhere and called again any time.

    An owner is dead when it is not in `live_owners` and its process no longer holds its folder.
    Raises django.db.Error while the database is away; nothing is forgotten then.
    """
    if not connection.in_atomic_block:  # the caller's thread lives longer than any connection
        connection.close_if_unusable_or_obsolete()
    claim = Path(directory) / SHIPPER
    claim.mkdir(parents=True, exist_ok=True, mode=0o700)
    total = Shipped()
    with locked(claim) as ours, _uncollected():
        for owner in owners(directory):
            folder = Path(directory) / owner
            if ours:
                total += _ship_owner(folder, owner in live_owners, at, (step, tell))
            total += Shipped(left=backlog.lines_left(folder))
    return total


@contextmanager
def _uncollected() -> Iterator[None]:
    """A batch is some hundred thousand objects without a cycle; to look for one among them, again
    and again as they are made, is a third of its time. They end with their last name."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def left(directory: Path) -> int:
    """Lines of all owners that are not stored; also while the database is away."""
    return sum(backlog.lines_left(Path(directory) / owner) for owner in owners(directory))


def _ship_owner(folder: Path, is_live: bool, at: datetime, watching: tuple[Step, Tell]) -> Shipped:
    if is_live:
        return _ship_batches(folder, True, at, watching)
    with locked(folder) as abandoned:
        return _ship_batches(folder, not abandoned, at, watching)


def _ship_batches(folder: Path, alive: bool, at: datetime, watching: tuple[Step, Tell]) -> Shipped:
    total, (step, tell) = Shipped(), watching
    for _ in range(BATCHES_MAX):
        batch = backlog.read(folder, alive, BATCH_LINES_MAX, at.timestamp())
        step("read")
        if batch.has_news:
            total += _store(folder, batch, at, step)
            step("committed")
            tell(batch)
            backlog.set_aside(batch.bad)
            backlog.remember(folder, batch.after)
            step("remembered")
        if batch.is_last:
            budgets.release(folder.name)
            step("released")
        elif batch.is_whole:
            owner = folder.name[:OWNER_CHARACTERS_MAX]
            watermarks.tell(owner, at, batch.after.calls.values(), news=batch.has_news)
            step("told")
        backlog.forget(folder, batch)
        if batch.is_last:
            SpoolPosition.objects.filter(pk=folder.name[:OWNER_CHARACTERS_MAX]).delete()
        step("forgotten")
        if batch.is_whole:
            break
    return total


def _store(folder: Path, batch: Batch, at: datetime, step: Step) -> Shipped:
    with transaction.atomic():
        closed = events.store(batch.closes, batch.hashes, at)
        lost = events.store(batch.lost, map(content_hash, batch.lost), at)
        events.spend(folder.name, closed.made + lost.made, at)
        traces.store(batch)
        attempts.store(batch)
        step("stored")
        refused = _count_refusals(folder.name, batch, at)
        for name, lines in Counter(path.name for path, _ in batch.bad).items():
            _alarm(folder, f"{lines} lines of {name} are no records", at)
        for close, why in (*closed.refused, *lost.refused):
            _alarm(folder, f"call {close.call_id} cannot be stored: {why}", at)
            batch.bad.append((folder / UNSTORABLE, line_of(close)))
        step("counted")
    return Shipped(len(closed.made) + len(lost.made), len(lost.made), refused)


def _alarm(folder: Path, what: str, at: datetime) -> None:
    what = what.replace("\0", "\N{REPLACEMENT CHARACTER}")  # no table takes it
    events.alarm("set aside usage", f"spool {folder.name}", what, {"what": what}, at)


def _count_refusals(owner: str, batch: Batch, at: datetime) -> int:
    """Counts have no id to be known by, so the position counted up to is stored with them."""
    if not batch.refused:
        return 0
    owner = owner[:OWNER_CHARACTERS_MAX]
    position, _ = SpoolPosition.objects.select_for_update().get_or_create(
        owner=owner, defaults={"segment": 0, "offset": 0, "at": at}
    )
    counted = (position.segment, position.offset)
    counts: dict[tuple, int] = {}
    for segment, offset, refused in batch.refused:
        if refused.count and (segment, offset) > counted:
            minute = datetime.fromtimestamp(refused.minute, UTC)
            name = (refused.tenant, refused.key_id, refused.code, minute)
            counts[name] = counts.get(name, 0) + refused.count
    if counts:
        names = sorted(counts, key=str)
        columns = [list(column) for column in zip(*names, strict=True)]
        with connection.cursor() as cursor:
            cursor.execute(COUNT_REFUSALS, [*columns, [counts[name] for name in names]])
    last_segment, last_offset, _ = batch.refused[-1]
    SpoolPosition.objects.filter(pk=owner).update(segment=last_segment, offset=last_offset, at=at)
    return sum(counts.values())
