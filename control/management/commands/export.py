"""`weir export usage|focus|costs|focus-schema|invoice`: one file to stdout, in constant memory."""

import os
import sys

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import OperationalError

from control.checks import Refused
from control.management.shell import database_away, require_database
from control.metering.exports.orders import Order, checked, chunks
from control.metering.exports.wanted import (
    FOCUS_VERSIONS,
    FORMATS,
    INVOICE,
    SCHEMA,
    TABLES,
    VERSION,
)


class Command(BaseCommand):
    help = (
        "Write calls, what was billed, what device time cost or an invoice to stdout. "
        "usage: calls, one a row; focus: billed, by day and SKU; focus-schema: its columns; "
        "costs: what device time cost; invoice: the lines of one. A tenant's month is of its own "
        "calendar; usage of all tenants is of a month in UTC."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=FORMATS)
        parser.add_argument("number", nargs="?", default="", help="of an invoice")
        parser.add_argument("--month", default="", metavar="2026-11")
        parser.add_argument("--format", choices=TABLES, default="")
        parser.add_argument("--tenant", default="", help="only this tenant's")
        parser.add_argument("--model", default="", help="only this model's calls (usage)")
        parser.add_argument("--version", choices=FOCUS_VERSIONS, default=VERSION, help="of FOCUS")

    def create_parser(self, *args, **kwargs) -> CommandParser:
        """Django has a --version of its own, which would be the other one."""
        return super().create_parser(*args, conflict_handler="resolve", **kwargs)

    def handle(self, *, what: str, month: str, **options: object) -> None:
        if not month and what not in (INVOICE, SCHEMA):
            raise CommandError("--month: is required, as in 2026-11")
        names = ("number", "tenant", "model", "version")
        told = {name: options[name] for name in names}
        chosen = "" if what == SCHEMA else options["format"]
        try:
            if what not in (INVOICE, SCHEMA):
                checked(Order(what, month=month))  # before the database is asked for
            require_database()
            order = checked(Order(what, chosen, month, **told))
            self._write(order)
        except Refused as refused:
            raise CommandError(f"{refused}" if what == INVOICE else f"--{refused}") from refused
        except OperationalError as error:
            raise database_away(error) from error

    def _write(self, order: Order) -> None:
        binary = getattr(self.stdout, "buffer", None)
        try:
            for chunk in chunks(order):
                if binary is None:  # a caller in Python gave us a text to write to
                    self.stdout.write(chunk.decode(), ending="")
                else:
                    binary.write(chunk)
            self.stdout.flush()
        except BrokenPipeError:
            # `weir export … | head` has read enough; the last flush must find somewhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
