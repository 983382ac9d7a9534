"""Points that outlast Valkey: every 10 s for a day, every minute for 30 days."""

from collections import defaultdict
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from control.models import Point
from control.telemetry import rules
from control.telemetry.messages import Sample
from control.telemetry.store import Store

KEPT = {10: timedelta(hours=24), 60: timedelta(days=30)}  # resolution in seconds -> how long
WINDOWS_BACK = 3  # a late or lost run is made up for by the next ones
SETTLE_SECONDS = 2  # the last samples of a window may be on their way
PRUNE_ROWS_MAX = 20_000


def roll_up(store: Store, at: datetime) -> int:
    """Write the points of windows that have ended; running it twice writes nothing twice."""
    subjects = store.subjects()
    written = 0
    for resolution in KEPT:
        end = rules.window_start(at.timestamp() - SETTLE_SECONDS, resolution)
        begin = end - WINDOWS_BACK * resolution
        series = store.series(subjects, begin)
        points = [
            Point(
                subject=subject,
                resolution_seconds=resolution,
                at=datetime.fromtimestamp(start, UTC),
                values=rules.point([asdict(sample) for sample in samples]),
            )
            for subject in subjects
            for start, samples in _windows(series[subject], resolution).items()
            if begin <= start < end
        ]
        Point.objects.bulk_create(points, batch_size=1000, ignore_conflicts=True)
        written += len(points)
    return written


def prune(at: datetime) -> int:
    """Delete points past their time, a bounded number at once."""
    deleted = 0
    for resolution, kept in KEPT.items():
        old = Point.objects.filter(resolution_seconds=resolution, at__lt=at - kept)
        ids = list(old.values_list("pk", flat=True)[:PRUNE_ROWS_MAX])
        deleted += Point.objects.filter(pk__in=ids).delete()[0]
    return deleted


def _windows(samples: list[Sample], resolution: int) -> dict[int, list[Sample]]:
    windows: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        windows[rules.window_start(sample.at, resolution)].append(sample)
    return windows
