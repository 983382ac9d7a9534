"""What a cloud's notice says: that a host goes, and perhaps when. Pure."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# Members that hold the instant, in the words of those who write such notices.
_INSTANTS = ("time", "leaving_by", "NotBefore", "action_time")
_LISTS = ("Events",)
_ENDS = {"preempt", "terminate", "stop", "hibernate", "redeploy"}
_NO = {"false", "no", "0", "none", "null"}


@dataclass(frozen=True)
class Leaves:
    at: datetime | None  # None: it does not say


def read(text: str, name: str = "") -> Leaves | None:
    """None: the host stays. An empty file says that it goes, as does a word such as TRUE.

    `name` is the host's, for notices that tell of others too.
    """
    words = text.strip()
    if words.lower() in _NO:
        return None
    if at := _instant(words):
        return Leaves(at)
    try:
        value = json.loads(words)
    except ValueError:
        return Leaves(None)
    if isinstance(value, dict):
        return _of_object(value, name)
    return Leaves(None) if value else None


def _of_object(value: dict, name: str) -> Leaves | None:
    for member in _LISTS:
        if member in value:
            ends = [one for one in value[member] if _ends(one) and _is_of(name, one)]
            return _soonest([_of_object(one, name) for one in ends])
    if not _ends(value):
        return None
    told = (_instant(str(value[member])) for member in _INSTANTS if value.get(member))
    return Leaves(next((at for at in told if at), None))


def _ends(event: object) -> bool:
    """Events of other kinds, such as a reboot, are not a host's end."""
    if not isinstance(event, dict):
        return False
    kind = event.get("EventType") or event.get("action")
    return kind is None or str(kind).lower() in _ENDS


def _is_of(name: str, event: dict) -> bool:
    """An event that names hosts is of these alone."""
    named = event.get("Resources") or []
    return not named or name.lower() in {str(one).lower() for one in named}


def _soonest(found: list[Leaves | None]) -> Leaves | None:
    known = [one for one in found if one]
    dated = [one for one in known if one.at]
    return min(dated, key=lambda one: one.at) if dated else next(iter(known), None)


def _instant(text: str) -> datetime | None:
    """2026-11-30T00:00:00Z, or as in HTTP: Mon, 30 Nov 2026 00:00:00 GMT."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
