"""When a device was there, from the hours in which it was seen: an absence that is short counts."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from control.metering.cost.rules import HOUR

AWAY_MAX = timedelta(days=3)  # a host that stays away longer is not paid for meanwhile
MICROSECOND = timedelta(microseconds=1)


class SeenHour(NamedTuple):
    """One device in one hour of those in which it was seen."""

    uuid: str
    hour: datetime
    first_at: datetime
    last_at: datetime
    pool: str
    name: str
    kind: str
    millijoules: int
    energy_microseconds: int


class Present(NamedTuple):
    """A device in an hour in which it was there, seen or not; `seen` is how it was last seen."""

    seen: SeenHour
    begin: datetime
    end: datetime

    @property
    def microseconds(self) -> int:
        return (self.end - self.begin) // MICROSECOND


def by_hour(
    rows: Iterable[SeenHour], since: datetime, until: datetime
) -> dict[datetime, dict[str, Present]]:
    """Hour → devices that were there. Rows may reach beyond `since` and `until`, by AWAY_MAX."""
    of_device: dict[str, list[SeenHour]] = defaultdict(list)
    for row in rows:
        of_device[row.uuid].append(row)
    found: dict[datetime, dict[str, Present]] = defaultdict(dict)
    for uuid, hours in of_device.items():
        for present in _of_device(sorted(hours, key=lambda row: row.hour)):
            hour = present.begin - (present.begin - present.seen.hour) % HOUR
            if since <= hour < until:
                found[hour][uuid] = present
    return found


def _of_device(hours: list[SeenHour]) -> list[Present]:
    """From its first to its last instant, but for absences that were too long."""
    found = []
    for place, row in enumerate(hours):
        before = hours[place - 1] if place else None
        after = hours[place + 1] if place + 1 < len(hours) else None
        was_there = before is not None and row.hour - before.hour <= AWAY_MAX
        comes_back = after is not None and after.hour - row.hour <= AWAY_MAX
        begin = row.hour if was_there else row.first_at
        found.append(Present(row, begin, row.hour + HOUR if comes_back else row.last_at))
        if after is not None and comes_back:
            for number in range(1, (after.hour - row.hour) // HOUR):
                hour = row.hour + number * HOUR
                found.append(Present(row, hour, hour + HOUR))
    return found
