"""Whether a period may close, and what stands against it. Pure."""

from dataclasses import dataclass
from datetime import datetime

from control import checks
from control.states import PeriodState


@dataclass(frozen=True)
class Backlog:
    """What may still be missing of a period, when it is asked to close."""

    earlier_open: datetime | None = None  # an earlier period of the tenant that is not closed
    not_stored: tuple[str, ...] = ()  # spools that hold calls of it
    open_calls: int = 0
    incidents: tuple[str, ...] = ()


def why_not_close(
    state: str, ends_at: datetime, at: datetime, backlog: Backlog
) -> list[checks.Problem]:
    """Everything that stands against it, each with what to do."""
    if state == PeriodState.CLOSED:
        return []
    found = []
    if at < ends_at:
        found.append(f"it runs until {ends_at:%Y-%m-%d %H:%M} UTC: close it then")
    if backlog.earlier_open:
        found.append(f"the one from {backlog.earlier_open:%Y-%m-%d} is not closed: close it first")
    if backlog.not_stored:
        names = ", ".join(backlog.not_stored)
        found.append(f"calls of it may wait in spools ({names}): let their gateways ship them")
    if backlog.open_calls:
        found.append(f"{backlog.open_calls} calls of it have not ended: wait until they have")
    if backlog.incidents:
        names = ", ".join(backlog.incidents)
        found.append(f"drift is not explained ({names}): close these incidents first")
    return [checks.Problem("period", what) for what in found]
