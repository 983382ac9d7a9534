"""The month of a call: it follows from the id, so that an id is in one partition for ever."""

import re
from datetime import UTC, date, datetime

UNDATED = date(1970, 1, 1)  # of ids that tell no month, as of other makers
UUIDV7 = re.compile(r"req_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}", re.ASCII)
FIRST, AFTER_LAST = date(2020, 1, 1), date(2100, 1, 1)  # others tell of a broken clock


def month_of(call_id: str) -> date:
    """As the database's `weir_usage_month` has it."""
    if not UUIDV7.fullmatch(call_id):
        return UNDATED
    milliseconds = int(call_id[4:16], 16)
    for month, begins, ends in _known:
        if begins <= milliseconds < ends:
            return month
    return _look_up(milliseconds)


def following(month: date) -> date:
    return date(month.year + month.month // 12, month.month % 12 + 1, 1)


_known: list[tuple[date, int, int]] = []
_KNOWN_MAX = 16


def _look_up(milliseconds: int) -> date:
    if not _milliseconds(FIRST) <= milliseconds < _milliseconds(AFTER_LAST):
        return UNDATED
    month = datetime.fromtimestamp(milliseconds // 1000, UTC).date().replace(day=1)
    del _known[: max(len(_known) - _KNOWN_MAX + 1, 0)]
    _known.append((month, _milliseconds(month), _milliseconds(following(month))))
    return month


def _milliseconds(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
