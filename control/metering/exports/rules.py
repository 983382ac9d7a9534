"""What may stand in a cell of a file, and which calls a file is of. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from control.metering.periods import year_and_month

FORMULA_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


@dataclass(frozen=True)
class UsageWanted:
    """Which calls: by the instant they started, and by names; an empty name is every one."""

    since: datetime
    until: datetime
    tenant: str = ""
    key: str = ""
    model: str = ""
    route: str = ""
    after_id: int = 0  # of events: those between the marks of two closes
    up_to_id: int = 2**62


def month(text: str) -> tuple[datetime, datetime]:
    """`2026-11` → its first instant and that of the month after, in UTC."""
    year, number = year_and_month(text)
    following = (year + 1, 1) if number == 12 else (year, number + 1)
    return datetime(year, number, 1, tzinfo=UTC), datetime(*following, 1, tzinfo=UTC)


def harmless(text: str) -> str:
    """A spreadsheet would run a text that begins like a formula; numbers never pass here."""
    return f"'{text}" if text.startswith(FORMULA_BEGINNINGS) else text


def harmless_sql(expression: str) -> str:
    """The same, said to the database; null stays null."""
    codes = ", ".join(str(ord(beginning)) for beginning in FORMULA_BEGINNINGS)
    begins = f"ascii({expression}) IN ({codes})"
    return f"CASE WHEN {begins} THEN '''' || {expression} ELSE {expression} END"
