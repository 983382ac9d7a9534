"""`weir prefetch MODEL:VERSION`: its weights on the nodes, ahead of its first replica."""

from argparse import ArgumentParser

from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError
from django.utils import timezone

from control.checks import Refused
from control.fleet.disk import actions, facts
from control.management.shell import actor, database_away, require_database

GIB = 2**30


class Command(BaseCommand):
    help = "Ask every node (or one) for the weights of a version, or list what nodes have."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("version", nargs="?", help="MODEL:VERSION; without it: a list")
        parser.add_argument("--node", help="only this one; default: every node")
        parser.add_argument("--reason", default="weir prefetch")

    def handle(self, *args, version: str | None, node: str | None, reason: str, **options) -> None:
        try:
            require_database()
            if version is None:
                self._list(node)
                return
            model, colon, name = version.partition(":")
            if not colon:
                raise CommandError(f"{version!r} names no version: MODEL:VERSION")
            who = {"by": actor(), "reason": reason, "at": timezone.now()}
            for one in actions.prefetch(model, name, node=node, **who):
                self.stdout.write(f"{one.node}: asked")
            self.stdout.write("`weir prefetch` without a version shows how far they are")
        except Refused as refusal:
            raise CommandError(str(refusal)) from None
        except DatabaseError as error:
            raise database_away(error) from None

    def _list(self, node: str | None) -> None:
        rows = facts.weights(node)
        for row in rows:
            size = "" if row.size_bytes is None else f"  {row.size_bytes / GIB:.1f} GiB"
            use = "  in use" if row.held else ""
            done = "" if row.state == "done" else f" {row.percent} %: {row.detail}"
            self.stdout.write(f"{row.node}  {row.key}  {row.state}{done}{size}{use}")
        if not rows:
            self.stdout.write(
                "no node has weights yet: `weir prefetch MODEL:VERSION` asks for them"
            )
