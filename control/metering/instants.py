"""Instants as spools have them, in epoch seconds: as datetimes and in whole microseconds."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def instant(epoch_seconds: float) -> datetime:
    return datetime.fromtimestamp(epoch_seconds, UTC)


def microseconds_of(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


_MAX = microseconds_of(datetime(9999, 12, 31, tzinfo=UTC))


def microseconds(epoch_seconds: list[float]) -> list[int]:
    """As datetime has them; instants that it does not know are refused."""
    if epoch_seconds and not 0 <= min(epoch_seconds) <= max(epoch_seconds) < _MAX / 10**6:
        raise ValueError("an instant is not after 1970 and before 9999")
    return [int(at) * 1_000_000 + round(at % 1 * 1_000_000) for at in epoch_seconds]
