"""Writes down what an engine that Weir did not launch has counted, or why that is not known."""

from datetime import UTC, datetime, timedelta

from django.db import transaction

from control.metering.drift import counts
from control.metering.drift.external.rules import Counted, series
from control.models import EngineCount, EngineReading
from engines.spec import EngineLoad

BEFORE = timedelta(hours=2)  # an hour that it was not read in, so that no span ends with it
WHY_CHARACTERS_MAX = 300


def note(replica_id: int, load: EngineLoad, at: datetime) -> None:
    """A reading. Where counting begins it stands in an hour before, which spans begin with."""
    with transaction.atomic():
        reading, _ = EngineReading.objects.select_for_update().get_or_create(
            replica_id=replica_id, defaults={"tried_at": at}
        )
        last = _last(replica_id) if reading.read_at else None
        found = series(last, load, at.timestamp())
        counted_from = datetime.fromtimestamp(found.counted_from, UTC)
        hour = counts.hour_of(at) - (BEFORE if found.begins else timedelta(0))
        counts.write(replica_id, (hour, counted_from), load, at)
        reading.read_at, reading.tried_at, reading.why_not = at, at, ""
        reading.save()


def not_read(replica_id: int, why: str, at: datetime, *, counts_on: bool) -> None:
    """`counts_on`: the next reading is held against the last one, else counting begins anew."""
    values = {"tried_at": at, "why_not": why[:WHY_CHARACTERS_MAX]}
    values |= {} if counts_on else {"read_at": None}
    EngineReading.objects.update_or_create(replica_id=replica_id, defaults=values)


def _last(replica_id: int) -> Counted | None:
    row = EngineCount.objects.filter(replica=replica_id).order_by("-read_at").first()
    return row and Counted(row.counted_from.timestamp(), row.prompt_tokens, row.generation_tokens)
