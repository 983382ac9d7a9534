"""`weir key`: make, list, rotate and revoke tenants' keys. A secret goes to stdout alone, once."""

from argparse import ArgumentParser
from datetime import UTC, datetime

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError
from django.utils import timezone

from control.checks import Refused
from control.management.shell import actor, database_away, require_database
from control.models import Key
from control.states import KeyState
from control.tenancy import actions
from control.tenancy.rules import ENDPOINTS


class Command(BaseCommand):
    help = "Make, list, rotate and revoke keys. A new secret is alone on stdout."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        create = verbs.add_parser("create", help="make a key and print its secret once")
        create.add_argument("--tenant", required=True)
        create.add_argument("--name", required=True)
        create.add_argument("--project", default="default")
        create.add_argument("--route", action="append", help="only this route (repeatable)")
        endpoints = ", ".join(ENDPOINTS)
        create.add_argument("--endpoint", action="append", help=f"only this one of {endpoints}")
        create.add_argument("--network", action="append", default=[], help="only from this CIDR")
        create.add_argument("--priority", help="of its calls, if less than the tenant's")
        create.add_argument("--expires-at", type=_instant, help="as in 2027-01-01T00:00:00Z")
        rotate = verbs.add_parser("rotate", help="another secret; the old one is valid 24 h more")
        rotate.add_argument("--tenant", required=True)
        rotate.add_argument("--name", required=True)
        revoke = verbs.add_parser("revoke", help="end a key for ever")
        revoke.add_argument("--tenant", required=True)
        revoke.add_argument("--name", required=True)
        listed = verbs.add_parser("list", help="the keys, without their secrets")
        listed.add_argument("--tenant")

    def handle(self, *args, verb: str, **options) -> None:
        who = {"by": actor(), "reason": f"weir key {verb}", "at": timezone.now()}
        require_database()
        try:
            match verb:
                case "create":
                    self._create(options, who)
                case "rotate":
                    self._rotate(options, who)
                case "revoke":
                    self._revoke(options, who)
                case "list":
                    self._list(options["tenant"])
        except Refused as refused:
            raise CommandError("\n".join(str(problem) for problem in refused.problems)) from None
        except OperationalError as error:
            raise database_away(error) from None

    def _create(self, options: dict, who: dict) -> None:
        wanted = {name: options[name] for name in ("tenant", "name", "project", "expires_at")}
        scope = {
            "routes": options["route"],
            "endpoints": options["endpoint"],
            "networks": options["network"],
            "priority": options["priority"],
        }
        made = actions.create_key(**wanted, **scope, **who)
        self.stderr.write(
            f"key {options['tenant']}/{options['name']} made; its secret is on stdout and is"
            " never shown again"
        )
        self.stdout.write(made.secret)

    def _rotate(self, options: dict, who: dict) -> None:
        made = actions.rotate_key(options["tenant"], options["name"], **who)
        self.stderr.write("its old secret is valid for 24 h more; the new one is on stdout, once")
        self.stdout.write(made.secret)

    def _revoke(self, options: dict, who: dict) -> None:
        tenant, name = options["tenant"], options["name"]
        key = Key.objects.filter(tenant__name=tenant, name=name, state=KeyState.ACTIVE).first()
        if key is None:
            raise CommandError(f"tenant {tenant!r} has no active key {name!r}: see weir key list")
        actions.revoke_key(key.pk, **who)
        self.stderr.write(f"key {tenant}/{name} revoked")

    def _list(self, tenant: str | None) -> None:
        keys = Key.objects.select_related("tenant", "project").order_by(
            "tenant__name", "name", "pk"
        )
        for key in keys.filter(tenant__name=tenant) if tenant else keys:
            ends = f"expires {key.expires_at:%Y-%m-%dT%H:%M:%SZ}" if key.expires_at else ""
            parts = [str(key), key.project.name, key.shown, key.state, ends]
            self.stdout.write("  ".join(part for part in parts if part))


def _instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
