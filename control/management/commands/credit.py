"""`weir credit`: show and top up what tenants have paid ahead."""

from argparse import ArgumentParser
from decimal import Decimal, InvalidOperation

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError
from django.utils import timezone

from control.checks import Refused
from control.management.shell import actor, database_away, require_database
from control.metering.prepaid import actions, facts
from control.metering.prepaid.rules import CreditWanted
from control.states import CreditKind
from control.tenancy.facts import tenant


class Command(BaseCommand):
    help = "Show and top up the prepaid credit of a tenant."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        add = verbs.add_parser("add", help="credit that was bought, is given, or goes back")
        add.add_argument("--tenant", required=True)
        add.add_argument("--amount", required=True, help="as in 100.00")
        add.add_argument("--currency", required=True)
        add.add_argument(
            "--kind", default=str(CreditKind.PURCHASE), choices=[str(kind) for kind in CreditKind]
        )
        add.add_argument("--reference", default="", help="named twice, it is added once")
        add.add_argument("--reason", required=True, help="kept with the entry and in the audit")
        show = verbs.add_parser("show", help="what is left, and the newest entries")
        show.add_argument("--tenant", required=True)

    def handle(self, *args, verb: str, **options) -> None:
        require_database()
        try:
            if verb == "add":
                self._add(options)
            self._show(options["tenant"])
        except Refused as refused:
            raise CommandError("\n".join(str(problem) for problem in refused.problems)) from None
        except OperationalError as error:
            raise database_away(error) from None

    def _add(self, options: dict) -> None:
        try:
            amount = Decimal(options["amount"])
        except InvalidOperation:
            raise CommandError(f"--amount {options['amount']!r} is no number") from None
        named = {name: options[name] for name in ("tenant", "currency", "kind", "reference")}
        who = {"by": actor(), "reason": options["reason"], "at": timezone.now()}
        actions.add_credit(CreditWanted(amount=amount, **named), **who)

    def _show(self, name: str) -> None:
        if tenant(name) is None:
            raise CommandError(f"there is no tenant {name!r}")
        balances = facts.credit(name, timezone.now())
        if not balances:
            self.stdout.write(f"tenant {name} pays later: `prepaid` of weir apply changes that")
        for row in balances:
            closed = "" if row.is_open else "  (pays later now)"
            self.stdout.write(
                f"{row.balance} {row.currency} left, {row.held} of it held by calls{closed}"
            )
        for row in facts.entries(name, count=10):
            at = f"{row.at:%Y-%m-%d %H:%M}"
            self.stdout.write(
                f"{at}  {row.kind}  {row.amount} {row.currency}  {row.by}: {row.reason}"
            )
