"""How long launches of a version took to be ready, of late."""

from dataclasses import dataclass, fields
from statistics import median

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from control.models import ColdStart, WakeUp

STARTS_COUNTED = 5  # the last ones: engines, disks and networks change


@dataclass(frozen=True)
class ColdStartFacts:
    """Medians of the last starts, part by part."""

    wait_seconds: float
    fetch_seconds: float
    import_seconds: float
    load_seconds: float
    capture_seconds: float
    warm_up_seconds: float
    starts: int

    @property
    def seconds(self) -> float:
        """What a call that is held for a start has to expect."""
        return sum(getattr(self, name) for name in PARTS)


PARTS = tuple(field.name for field in fields(ColdStartFacts) if field.name != "starts")


def cold_starts(version_ids: list[int]) -> dict[int, ColdStartFacts]:
    """By version, of those that have started at least once."""
    newest = Window(RowNumber(), partition_by=F("version"), order_by=F("at").desc())
    rows = ColdStart.objects.filter(version__in=version_ids).annotate(place=newest)
    by_version: dict[int, list[ColdStart]] = {}
    for row in rows.filter(place__lte=STARTS_COUNTED):
        by_version.setdefault(row.version_id, []).append(row)
    return {version_id: _medians(starts) for version_id, starts in by_version.items()}


def wake_ups(version_ids: list[int]) -> dict[int, float]:
    """Seconds in which sleeping engines of a version woke up, by version."""
    newest = Window(RowNumber(), partition_by=F("version"), order_by=F("at").desc())
    rows = WakeUp.objects.filter(version__in=version_ids).annotate(place=newest)
    of: dict[int, list[float]] = {}
    for row in rows.filter(place__lte=STARTS_COUNTED):
        of.setdefault(row.version_id, []).append(row.seconds)
    return {version_id: median(seconds) for version_id, seconds in of.items()}


def _medians(starts: list[ColdStart]) -> ColdStartFacts:
    parts = {name: median(getattr(start, name) for start in starts) for name in PARTS}
    return ColdStartFacts(starts=len(starts), **parts)
