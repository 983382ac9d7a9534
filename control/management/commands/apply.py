"""`weir apply`: print what a service.yaml would change, and with --yes change it."""

import os
from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError
from django.utils import timezone

from control.apply.actions import Applied, apply
from control.apply.document import SIZE_BYTES_MAX
from control.apply.plan import MARKS, Plan, Verb, lines
from control.apply.wanted import BadFile
from control.management.shell import actor, database_away, require_database


class Command(BaseCommand):
    help = "Show what a service.yaml changes; with --yes carry it out in one transaction."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("-f", "--file", required=True, help="the service.yaml")
        parser.add_argument("--yes", action="store_true", help="carry the plan out")
        parser.add_argument("--prune", action="store_true", help="drain and archive the rest")

    def handle(self, *args, file: str, yes: bool, prune: bool, **options) -> None:
        text = self._text(file)
        require_database()
        try:
            applied = apply(
                text,
                # The one file besides settings that reads the environment: secrets that the
                # service.yaml names are those of whoever applies it, not settings of the platform.
                environment=os.environ,
                prune=prune,
                carry_out=yes,
                by=actor(),
                reason=f"weir apply {Path(file).name}"[:200],
                at=timezone.now(),
            )
        except BadFile as bad:
            # Alone on their lines, as editors and CI logs link them: no "CommandError:" before.
            self.stderr.write("\n".join(f"{file}:{misfit}" for misfit in bad.misfits))
            raise SystemExit(1) from None
        except OperationalError as error:
            raise database_away(error) from None
        self._tell(applied, file)

    def _text(self, file: str) -> str:
        try:
            with open(file, "rb") as handle:
                data = handle.read(SIZE_BYTES_MAX + 1)
            if len(data) > SIZE_BYTES_MAX:
                raise CommandError(f"{file}:1: is larger than {SIZE_BYTES_MAX} bytes")
            return data.decode("utf-8-sig")
        except OSError as error:
            raise CommandError(f"{file}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise CommandError(f"{file}:{line}: is not UTF-8") from None

    def _tell(self, applied: Applied, file: str) -> None:
        for line in lines(applied.plan):
            self.stdout.write(line)
        if not applied.plan.changes:
            self.stdout.write("Nothing to change.")
            return
        self.stdout.write(_sum(applied.plan))
        for misfit in applied.warnings:
            self.stderr.write(f"{file}:{misfit} (--yes would be refused)")
        if not applied.done:
            self.stdout.write("Nothing was changed: run again with --yes to carry it out.")
        for name, secret in applied.secrets.items():
            self.stdout.write(f"secret of key {name}, shown once: {secret}")


def _sum(plan: Plan) -> str:
    counts = {verb: sum(step.verb is verb for step in plan.steps) for verb in MARKS}
    said = [f"{count} to {verb}" for verb, count in counts.items() if verb is not Verb.UNCHANGED]
    changed = [text for text in said if not text.startswith("0 ")]
    return f"{', '.join(changed)}; {counts[Verb.UNCHANGED]} unchanged."
