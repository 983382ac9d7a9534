"""Opens incidents, ends them, and writes the letters that tell of both."""

import logging
from datetime import datetime, timedelta

from django.db import transaction

from control.fleet.incidents import facts, rules
from control.fleet.incidents.rules import ENDED, OPENED, Open, Seen
from control.models import Incident, IncidentLetter
from control.states import Delivery

KEPT = timedelta(days=400)
PRUNE_ROWS_MAX = 20_000
WHAT_CHARACTERS_MAX = 2000

log = logging.getLogger(__name__)


def watch(at: datetime) -> int:
    """Compare what is there with what was told; how many opened or ended. Any number of
    processes may do it at once: one incident of a kind and key is open."""
    seen = facts.seen(at)
    with transaction.atomic():
        rows = Incident.objects.filter(ended_at=None).select_for_update().order_by("pk")
        were = [Open(row.pk, row.kind, row.key, row.gone_at) for row in rows]
        changes = rules.changes(seen, were, at)
        Incident.objects.filter(pk__in=changes.gone).update(gone_at=at)
        Incident.objects.filter(pk__in=changes.back).update(gone_at=None)
        Incident.objects.filter(pk__in=changes.ended).update(ended_at=at)
        opened = [pk for one in changes.opened if (pk := _open(one, at))]
        _write(opened, OPENED, at)
        _write(changes.ended, ENDED, at)
    return len(opened) + len(changes.ended)


def prune(at: datetime) -> int:
    old = Incident.objects.filter(ended_at__lt=at - KEPT).values_list("pk", flat=True)
    return Incident.objects.filter(pk__in=list(old[:PRUNE_ROWS_MAX])).delete()[0]


def _open(seen: Seen, at: datetime) -> int | None:
    """None: another process was first."""
    row, is_new = Incident.objects.get_or_create(
        kind=seen.kind,
        key=seen.key,
        ended_at=None,
        defaults={
            "about": seen.about[:200],
            "what": seen.what[:WHAT_CHARACTERS_MAX],
            "is_urgent": seen.is_urgent,
            "opened_at": at,
        },
    )
    if is_new:
        log.warning("incident: %s: %s: %s", seen.about, seen.kind, seen.what)
    return row.pk if is_new else None


def _write(pks: list[int] | tuple[int, ...], event: str, at: datetime) -> None:
    url = facts.url()
    if not url:
        return
    waits = {"event": event, "at": at, "url": url, "delivery": Delivery.WAITING, "try_at": at}
    IncidentLetter.objects.bulk_create(IncidentLetter(incident_id=pk, **waits) for pk in pks)
