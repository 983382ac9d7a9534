"""What people see of drift: judged hours, and the incidents among them."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet

from control.models import Drift, Replica
from control.states import ReplicaState

HOURS_MAX = 24 * 31
ROWS_MAX = 1000
EXTERNAL = "external"  # a kind of engine
NOT_YET = "it was not tried yet: the control worker does, every 15 seconds"


@dataclass(frozen=True)
class NotRead:
    """An engine that Weir did not launch, and why its counters are not known."""

    replica: str
    why: str


@dataclass(frozen=True)
class Hour:
    """One replica's: what its engine counted, what its attempts tell, and what is left."""

    id: int
    replica_id: int
    replica: str
    begin_at: datetime
    end_at: datetime
    attempts: int
    cut_attempts: int
    engine: dict[str, int]
    attempted: dict[str, int]
    attempted_min: dict[str, int]
    attempted_max: dict[str, int]
    unexplained: dict[str, int]
    is_incident: bool
    calls: list[dict]
    closed_at: datetime | None
    closed_by: str
    closed_reason: str

    @property
    def is_open(self) -> bool:
        return self.is_incident and self.closed_at is None

    @property
    def named(self) -> dict:
        return asdict(self) | {"is_open": self.is_open}


def hours_before(at: datetime, hours: int) -> datetime:
    return at - timedelta(hours=min(max(hours, 1), HOURS_MAX))


def hours(since: datetime, *, limit: int = ROWS_MAX, offset: int = 0) -> list[Hour]:
    """The newest first."""
    rows = _rows().filter(end_at__gte=since).order_by("-hour", "replica_id", "-begin_at")
    return [_hour(row) for row in rows[offset : offset + limit]]


def hours_count(since: datetime) -> int:
    return Drift.objects.filter(end_at__gte=since).count()


def incident(drift_id: int) -> Hour | None:
    row = _rows().filter(pk=drift_id).first()
    return row and _hour(row)


def open_incidents(*, limit: int = ROWS_MAX) -> list[Hour]:
    """That nobody has closed, and late usage has not explained; the newest first."""
    rows = _rows().filter(is_incident=True, closed_at=None).order_by("-hour", "pk")
    return [_hour(row) for row in rows[:limit]]


def unread() -> list[NotRead]:
    """Engines that serve and whose counters are not read now: they are judged by nobody."""
    read = Q(reading__why_not="", reading__read_at__isnull=False)
    rows = Replica.objects.filter(
        state__in=(ReplicaState.READY, ReplicaState.UNHEALTHY), version__engine__kind=EXTERNAL
    ).exclude(read)
    found = rows.select_related("deployment", "reading").order_by("deployment__name", "generation")
    return [NotRead(str(row), _why(row)) for row in found[:ROWS_MAX]]


def _why(row: Replica) -> str:
    return row.reading.why_not if hasattr(row, "reading") else NOT_YET


def open_count() -> int:
    return Drift.objects.filter(is_incident=True, closed_at=None).count()


def _rows() -> QuerySet:
    return Drift.objects.select_related("replica__deployment")


def _hour(row: Drift) -> Hour:
    return Hour(
        row.pk,
        row.replica_id,
        str(row.replica),
        row.begin_at,
        row.end_at,
        row.attempts,
        row.cut_attempts,
        {"input": row.engine_input_tokens, "output": row.engine_output_tokens},
        {"input": row.input_tokens, "output": row.output_tokens},
        {"input": row.input_tokens_min, "output": row.output_tokens_min},
        {"input": row.input_tokens_max, "output": row.output_tokens_max},
        {"input": row.unexplained_input_tokens, "output": row.unexplained_output_tokens},
        row.is_incident,
        row.calls,
        row.closed_at,
        row.closed_by,
        row.closed_reason,
    )
