"""`weir books`: do events, ledger and the sums by the hour agree? `--rebuild` makes them."""

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError
from django.utils import timezone

from control.checks import Refused
from control.management.shell import database_away, require_database
from control.metering import watermarks
from control.metering.books import actions, facts


class Command(BaseCommand):
    help = "Check that events, ledger and hourly sums agree; --rebuild makes them and costs anew."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--rebuild", action="store_true", help="from events, which stay")
        parser.add_argument("--reason", default="", help="why, for the audit")

    def handle(self, *, rebuild: bool, reason: str, **_: object) -> None:
        require_database()
        try:
            if rebuild:
                made = actions.rebuild(by="weir books", reason=reason, at=timezone.now())
                self.stdout.write(
                    f"{made.hours} sums and {made.transfers} transfers were put right,"
                    f" {made.cost_hours} hours of cost made anew"
                )
            found = facts.agreement()
            stored = watermarks.stored(timezone.now())
        except Refused as refused:
            raise CommandError(f"--{refused}") from refused
        except OperationalError as error:
            raise database_away(error) from error
        for one in found:
            self.stdout.write(f"{'ok   ' if one.holds else 'WRONG'} {one.text}")
        self.stdout.write(
            f"calls that started before {stored.started:%Y-%m-%d %H:%M:%S} UTC are stored"
        )
        if not all(one.holds for one in found):
            raise CommandError("the books do not agree: weir books --rebuild --reason '…'")
