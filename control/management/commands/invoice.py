"""`weir invoice`: periods and invoices, closing a month, a credit, the correction of a call."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError
from django.utils import timezone

from control.checks import Refused
from control.management.shell import actor, database_away, require_database
from control.metering.invoices import actions, corrections, facts, periods
from control.metering.rules import Tokens


class Command(BaseCommand):
    help = "Close months of tenants into invoices; credits and corrections for what is open."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        listed = verbs.add_parser("list", help="periods and their invoices, newest first")
        listed.add_argument("--tenant", default="")
        close = verbs.add_parser("close", help="freeze a month and issue its invoices")
        close.add_argument("--tenant", required=True)
        close.add_argument("--month", required=True, metavar="2026-11")
        credit = verbs.add_parser("credit", help="let a tenant off a sum on the next invoice")
        credit.add_argument("--tenant", required=True)
        credit.add_argument("--amount", required=True)
        credit.add_argument("--currency", required=True)
        credit.add_argument("--token", required=True, help="the same one grants once")
        credit.add_argument("--reason", required=True, help="stands on the invoice")
        correct = verbs.add_parser("correct", help="bill a call by other counts of tokens")
        correct.add_argument("--tenant", required=True)
        correct.add_argument("--call", required=True, metavar="req_…")
        for name in ("input", "cached-input", "output", "reasoning"):
            correct.add_argument(f"--{name}", type=int, default=0)
        correct.add_argument("--reason", required=True)

    def handle(self, *args, verb: str, **options) -> None:
        who = {"by": actor(), "reason": f"weir invoice {verb}", "at": timezone.now()}
        who["reason"] = options.get("reason") or who["reason"]
        require_database()
        try:
            for line in getattr(self, f"_{verb}")(options, who):
                self.stdout.write(line)
        except Refused as refused:
            raise CommandError("\n".join(str(problem) for problem in refused.problems)) from None
        except OperationalError as error:
            raise database_away(error) from None

    def _list(self, options: dict, who: dict):
        periods.open_all(who["at"])
        for period in facts.period_list(who["at"], options["tenant"]):
            issued = ", ".join(
                f"{number} {payable} {currency}" for number, payable, currency in period.invoices
            )
            why = "; ".join(period.why_not)
            yield f"{period.tenant:24} {period.month} {period.state:8} {issued or why}".rstrip()

    def _close(self, options: dict, who: dict):
        periods.open_all(who["at"])
        issued = actions.close(facts.period_named(options["tenant"], options["month"]), **who)
        for invoice in map(facts.invoice, (one.number for one in issued)):
            yield f"{invoice.number} {invoice.payable} {invoice.currency}"
        if not issued:
            yield "closed: nothing was charged"

    def _credit(self, options: dict, who: dict):
        money = (options["amount"], options["currency"])
        actions.grant_credit(options["tenant"], money, options["token"], **who)
        yield f"{options['tenant']} is let off {' '.join(money)}"

    def _correct(self, options: dict, who: dict):
        counts = ("input", "cached_input", "output", "reasoning")
        tokens = Tokens(*(options[name] for name in counts))
        call = (options["tenant"], options["call"])
        yield " and ".join(corrections.correct_call(call, tokens, **who)) + " are stored"
