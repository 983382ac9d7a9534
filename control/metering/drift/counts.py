"""What engines count themselves, written down by their node: the last reading of each hour."""

from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import connection

from engines.spec import EngineLoad

EVERY_SECONDS = 5.0
WRITE = (  # a later reading takes the place of an earlier one; never the other way round
    "INSERT INTO control_enginecount (replica_id, hour, counted_from, read_at, prompt_tokens,"
    " generation_tokens, token_seconds_sum, token_gaps) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (replica_id, counted_from, hour) DO UPDATE SET read_at = excluded.read_at,"
    " prompt_tokens = excluded.prompt_tokens, generation_tokens = excluded.generation_tokens,"
    " token_seconds_sum = excluded.token_seconds_sum, token_gaps = excluded.token_gaps"
    " WHERE control_enginecount.read_at < excluded.read_at"
)


@dataclass
class _Last:
    """Of one engine: what was read last, and what is written of it."""

    load: EngineLoad
    at: datetime
    written: EngineLoad | None = None
    written_at: datetime | None = None
    is_settled: bool = False  # written once more after it stood still: what is later is new

    def is_due(self, load: EngineLoad, at: datetime) -> bool:
        if self.written_at is None:
            return True
        if (at - self.written_at).total_seconds() < EVERY_SECONDS:
            return False
        return not self.is_settled or not _same(load, self.written)


class Counts:
    """One for a node. What it remembers may be lost: then up to five seconds are not read."""

    def __init__(self) -> None:
        self._last: dict[int, _Last] = {}

    def note(self, replica_id: int, load: EngineLoad, at: datetime) -> None:
        last = self._last.get(replica_id)
        if last is None:
            last = self._last[replica_id] = _Last(load, at)
        elif (
            hour_of(at) != hour_of(last.at)
            or load.started_at_seconds != last.load.started_at_seconds
        ):
            self._flush(replica_id, last)  # the last of its hour, or of its launch
            last.written_at = None
        last.load, last.at = load, at
        if last.is_due(load, at):
            self._write(replica_id, last)

    def keep_only(self, replica_ids: set[int]) -> None:
        """Forget engines that are gone, with what they said last written down."""
        for gone in set(self._last) - replica_ids:
            self.flush(gone)
            self._last.pop(gone, None)

    def flush(self, replica_id: int) -> None:
        """What was read last is the last that will be: it stops, or it has died."""
        if last := self._last.get(replica_id):
            self._flush(replica_id, last)

    def _flush(self, replica_id: int, last: _Last) -> None:
        if last.written_at != last.at:
            self._write(replica_id, last)

    def _write(self, replica_id: int, last: _Last) -> None:
        load, at = last.load, last.at
        counted_from = datetime.fromtimestamp(load.started_at_seconds, UTC)
        write(replica_id, (hour_of(at), counted_from), load, at)
        last.is_settled = last.written is not None and _same(load, last.written)
        last.written, last.written_at = load, at


def write(replica_id: int, of: tuple[datetime, datetime], load: EngineLoad, at: datetime) -> None:
    """`of`: the hour that it is the last reading of, and since when it counts."""
    counters = load.prompt_tokens, load.generation_tokens, load.tpot_seconds_sum, load.tpot_count
    with connection.cursor() as cursor:
        cursor.execute(WRITE, [replica_id, *of, at, *counters])


def _same(one: EngineLoad, other: EngineLoad | None) -> bool:
    return other is not None and (
        one.prompt_tokens == other.prompt_tokens
        and one.generation_tokens == other.generation_tokens
        and one.started_at_seconds == other.started_at_seconds
    )


def hour_of(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)
