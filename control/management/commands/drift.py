"""`weir drift`: usage beside what engines counted themselves, and what nothing explains."""

import json
from argparse import ArgumentParser

from django.core.management.base import BaseCommand
from django.db import OperationalError
from django.utils import timezone

from control.management.shell import database_away, require_database
from control.metering.drift import actions, books
from control.metering.drift.books import Hour

HOURS = 24
INCIDENT = 1


class Command(BaseCommand):
    help = "Show each replica's hours beside its engine's counters: 1 if an incident is open."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--hours", type=int, default=HOURS, help=f"that began since ({HOURS})")
        parser.add_argument(
            "--now",
            action="store_true",
            help="judge this hour too, as far as engines were read; calls that run may be missing",
        )
        parser.add_argument("--json", action="store_true", help="one JSON object an hour on stdout")

    def handle(self, *, hours: int, now: bool, **options) -> None:
        at = timezone.now()
        require_database()
        try:
            if now:
                actions.judge(at, at)
            rows = books.hours(since=books.hours_before(at, hours))
            unread, is_open = books.unread(), books.open_count() > 0
        except OperationalError as error:
            raise database_away(error) from None
        for row in rows:
            self.stdout.write(json.dumps(row.named, default=str) if options["json"] else _line(row))
        if not rows:
            self.stderr.write(
                "no hour of these is judged yet: that comes when its calls are stored"
            )
        for one in unread:
            self.stderr.write(f"{one.replica}: its counters are not read: {one.why}")
        raise SystemExit(INCIDENT if is_open else 0)


def _line(row: Hour) -> str:
    said = "; ".join(
        f"{name}: engine {row.engine[name]:,}, attempts {row.attempted[name]:,},"
        f" unexplained {row.unexplained[name]:+,}"
        for name in ("input", "output")
    )
    mark = " INCIDENT" if row.is_open else ""
    return f"{row.replica} {row.begin_at:%Y-%m-%d %H:%M}-{row.end_at:%H:%M} {said}{mark}"
