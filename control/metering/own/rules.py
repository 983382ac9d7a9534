"""What a tenant may ask of its own usage (pure)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from control import checks

GROUPS = ("day", "model", "key", "project")
ROWS_DEFAULT, ROWS_MAX = 100, 1000
DAYS_MAX = 400
NAME_CHARACTERS_MAX = 96
KNOWN = ("group_by", "month", "from", "to", "model", "key", "project", "limit")
_MONTH = re.compile(r"(\d{4})-(\d{2})")


@dataclass(frozen=True)
class UsageAsked:
    """Days of the tenant's own calendar, the last one excluded; made by `asked`."""

    first: date
    after: date
    timezone: str
    group_by: tuple[str, ...] = ("day",)
    model: str = ""
    key: str = ""
    project: str = ""
    limit: int = ROWS_DEFAULT

    @property
    def since(self) -> datetime:
        return midnight(self.first, self.timezone)

    @property
    def until(self) -> datetime:
        return midnight(self.after, self.timezone)

    @property
    def is_in_whole_hours(self) -> bool:
        """Whether each of its days begins with an hour of UTC, as hourly sums do."""
        days = (self.after - self.first).days
        starts = (midnight(self.first + timedelta(n), self.timezone) for n in range(days + 1))
        return not any(start.minute or start.second for start in starts)


def midnight(day: date, timezone: str) -> datetime:
    """One that is skipped is when the clock jumps over it; of two the first one counts."""
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(timezone)).astimezone(UTC)


def asked(given: Mapping[str, str], at: datetime, timezone: str) -> UsageAsked:
    """Of a query string; raises Refused with the parameter that is wrong."""
    for name in given:
        if name not in KNOWN:
            raise checks.refuse(name[:96], f"is unknown: use {', '.join(KNOWN)}")
    first, after = _days(given, at.astimezone(ZoneInfo(timezone)).date())
    groups = tuple(dict.fromkeys(given.get("group_by", "day").split(",")))
    for name in groups:
        checks.require(checks.one_of("group_by", name[:96], GROUPS))
    names = {name: given.get(name, "") for name in ("model", "key", "project")}
    for name, value in names.items():
        if len(value) > NAME_CHARACTERS_MAX or "\0" in value:
            raise checks.refuse(name, "is no name")
    return UsageAsked(first, after, timezone, groups, **names, limit=_limit(given))


def _days(given: Mapping[str, str], today: date) -> tuple[date, date]:
    if "month" in given and ("from" in given or "to" in given):
        raise checks.refuse("month", "is one way to say it, from and to another: use one of them")
    if "from" not in given and "to" not in given:
        return month_of(given.get("month", f"{today:%Y-%m}"))
    after = _day("to", given["to"]) if "to" in given else today + timedelta(1)
    first = _day("from", given["from"]) if "from" in given else after.replace(day=1)
    if not first < after:
        raise checks.refuse("to", f"{after} is not after {first}: the last day is excluded")
    if (after - first).days > DAYS_MAX:
        raise checks.refuse("from", f"is more than {DAYS_MAX} days before to")
    return first, after


def month_of(text: str) -> tuple[date, date]:
    found = _MONTH.fullmatch(text)
    if found is None or not (1 <= int(found[2]) <= 12 and 1 <= int(found[1]) < 9999):
        raise checks.refuse("month", f"{text[:32]!r} is no month: write it as in 2026-11")
    first = date(int(found[1]), int(found[2]), 1)
    return first, (first + timedelta(31)).replace(day=1)


def _day(name: str, text: str) -> date:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        found = date.min
    if not 1 < found.year < 9999:
        raise checks.refuse(name, f"{text[:32]!r} is no day: write it as in 2026-11-30")
    return found


def _limit(given: Mapping[str, str]) -> int:
    text = given.get("limit", str(ROWS_DEFAULT))
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= ROWS_MAX:
        raise checks.refuse("limit", f"is a whole number from 1 to {ROWS_MAX}")
    return int(text)
