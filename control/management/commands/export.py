"""`weir export usage --month 2026-11 --format csv`: to stdout, one row per call, oldest first."""

import os
import sys

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from control.checks import Refused
from control.management.shell import database_away, require_database
from control.metering import exports


class Command(BaseCommand):
    help = "Write usage to stdout, one row per call, oldest first. A month is one in UTC."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=["usage"])
        parser.add_argument("--month", required=True, metavar="2026-11")
        parser.add_argument("--format", choices=["csv"], default="csv")
        parser.add_argument("--tenant", default="", help="only this tenant's calls")
        parser.add_argument("--model", default="", help="only this model's calls")

    def handle(self, *, month: str, tenant: str, model: str, **_: object) -> None:
        try:
            since, until = exports.month(month)
        except Refused as refused:
            raise CommandError(f"--{refused}") from refused
        require_database()
        wanted = exports.UsageWanted(since, until, tenant=tenant, model=model)
        try:
            for text in exports.usage_csv(wanted):
                self.stdout.write(text.decode(), ending="")
            self.stdout.flush()
        except BrokenPipeError:
            # `weir export … | head` has read enough; the last flush must find somewhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OperationalError as error:
            raise database_away(error) from error
