"""`weir runtime`: engine versions on the nodes, side by side, ahead of their first replica."""

import subprocess
import sys
from argparse import ArgumentParser

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError
from django.utils import timezone

from control.catalog.rules import ENGINE_VERSIONS
from control.checks import Refused
from control.fleet.disk import actions, facts
from control.fleet.disk.rules import DEVICE_KINDS, Asked
from control.management.shell import actor, database_away, require_database


class Command(BaseCommand):
    help = "Ask every node for an engine version, or list what nodes have."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        install = verbs.add_parser("install", help="ask nodes for it; each installs by itself")
        install.add_argument("engine", nargs="?", default="vllm")
        install.add_argument("release", nargs="?", default=ENGINE_VERSIONS["vllm"][-1])
        install.add_argument("--node", help="only this one; default: every node that can run it")
        install.add_argument("--device", choices=DEVICE_KINDS, help="default: gpu where a node has")
        install.add_argument(
            "--here", action="store_true", help="on this host, now, without a running platform"
        )
        install.add_argument("--reason", default="weir runtime install")
        listed = verbs.add_parser("list", help="what each node has, and how far it is")
        listed.add_argument("--node")

    def handle(self, *args, verb: str, **options) -> None:
        if verb == "install" and options["here"]:
            sys.exit(_install_here(options["engine"], options["release"], options["device"]))
        try:
            require_database()
            self._list(options["node"]) if verb == "list" else self._install(options)
        except Refused as refusal:
            raise CommandError(str(refusal)) from None
        except DatabaseError as error:
            raise database_away(error) from None

    def _install(self, options: dict) -> None:
        decided = actions.install_runtime(
            options["engine"],
            options["release"],
            device_kind=options["device"],
            node=options["node"],
            by=actor(),
            reason=options["reason"],
            at=timezone.now(),
        )
        for one in decided:
            said = f"asked, for {one.device_kind}" if isinstance(one, Asked) else one.reason
            self.stdout.write(f"{one.node}: {said}")
        self.stdout.write("`weir runtime list` shows how far they are")

    def _list(self, node: str | None) -> None:
        rows = facts.runtimes(node)
        for row in rows:
            done = "" if row.state == "done" else f" {row.percent} %: {row.detail}"
            what = f"{row.engine} {row.version} for {row.device_kind}"
            self.stdout.write(f"{row.node}  {what}  {row.state}{done}")
        if not rows:
            self.stdout.write("no node has an engine yet: `weir runtime install` asks for one")


def _install_here(engine: str, release: str, device: str | None) -> int:
    """In a process of its own: what touches the machine is reached through node tasks only."""
    argv = [sys.executable, "-m", "engines.runtime", "install", "--kind", engine]
    argv += ["--version", release, "--device", device or "cpu"]
    argv += ["--root", str(settings.WEIR_RUNTIMES), "--python", settings.WEIR_ENGINE_PYTHON]
    argv += ["--wheels", settings.WEIR_WHEELS]
    return subprocess.run(argv, cwd=settings.BASE_DIR, check=False).returncode
