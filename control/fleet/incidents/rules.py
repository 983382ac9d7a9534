"""Which troubles open an incident, when it is over, and what its URL reads (pure)."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from control.fleet.troubles.rules import Kind

GONE_FOR = timedelta(seconds=60)  # what comes back sooner was not over
DRIFT = "drift"
# Few replicas are a warning on pages, and no incident.
KINDS = (*(kind for kind in Kind if kind is not Kind.FEW_REPLICAS), DRIFT)
OPENED, ENDED = "opened", "ended"


@dataclass(frozen=True)
class Seen:
    """A trouble that is there now; `key` tells it from others of its kind."""

    kind: str
    key: str
    about: str
    what: str
    is_urgent: bool


@dataclass(frozen=True)
class Open:
    """An incident that has not ended, as it was last written down."""

    id: int
    kind: str
    key: str
    gone_at: datetime | None


@dataclass(frozen=True)
class Changes:
    opened: tuple[Seen, ...]
    gone: tuple[int, ...]
    back: tuple[int, ...]
    ended: tuple[int, ...]


@dataclass(frozen=True)
class Told:
    """One event of an incident, for its letter."""

    id: int
    event: str
    at: datetime
    kind: str
    about: str
    what: str
    is_urgent: bool
    opened_at: datetime
    ended_at: datetime | None

    @property
    def text(self) -> str:
        return f"{self.about}: {self.kind}{' is over' if self.event == ENDED else ''}. {self.what}"


def changes(seen: Iterable[Seen], were: Iterable[Open], at: datetime) -> Changes:
    now = {(one.kind, one.key): one for one in seen}
    known = {(one.kind, one.key): one for one in were}
    away = [one for key, one in known.items() if key not in now]
    return Changes(
        opened=tuple(one for key, one in now.items() if key not in known),
        gone=tuple(one.id for one in away if one.gone_at is None),
        back=tuple(one.id for key, one in known.items() if key in now and one.gone_at),
        ended=tuple(one.id for one in away if one.gone_at and at - one.gone_at >= GONE_FOR),
    )


def message(told: Told) -> bytes:
    """What is sent: the same bytes at each try."""
    said = {
        "type": f"incident.{told.event}",
        "id": message_id(told),
        "timestamp": told.at.isoformat(),
        "data": {
            "kind": told.kind,
            "about": told.about,
            "what": told.what,
            "is_urgent": told.is_urgent,
            "opened_at": told.opened_at.isoformat(),
            "ended_at": told.ended_at and told.ended_at.isoformat(),
            "text": told.text,
        },
    }
    return json.dumps(said, separators=(",", ":")).encode()


def message_id(told: Told) -> str:
    """By which a receiver knows a message that it has had."""
    return f"incident_{told.id}_{told.event}"
