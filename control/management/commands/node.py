"""`weir node`: this host's worker, and what operators do with nodes.

Engines live on when only the worker stops.
"""

import contextlib
from argparse import ArgumentParser
from socket import gethostname

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils import timezone

from control.celery import app
from control.fleet import node as nodes
from control.fleet import node_tasks, orders
from control.fleet.disk import files
from control.fleet.watch import Watch
from control.management import node_verbs
from control.management.local.schema import SchemaIsOlder, refuse_older_schema
from control.management.shell import database_away
from control.routes import compiler
from control.states import Part

CONCURRENCY = 4


class Command(BaseCommand):
    help = "Run this host's node worker, stop all its engines, or change what is wanted of nodes."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--stop-engines", action="store_true", help="drain and stop every engine of this home"
        )
        node_verbs.add_to(parser)

    def handle(self, *args, stop_engines: bool, verb: str | None, **options) -> None:
        if verb:
            node_verbs.carry_out(verb, options, self.stdout)
            return
        try:
            if stop_engines:
                self._stop_engines()
                return
            refuse_older_schema()
            lock = nodes.hold_home()
            node = nodes.join(settings.WEIR_NODE_NAME)
            files.say_host(node)
        except (nodes.NameTaken, SchemaIsOlder) as refused:
            raise CommandError(str(refused)) from None
        except DatabaseError as error:
            raise database_away(error) from None
        watch = Watch(node)
        watch.start()
        try:
            self._work(node.name)
        finally:
            watch.stop()
            lock.close()

    def _work(self, name: str) -> None:
        """Until SIGTERM, which lets running tasks end."""
        # Not by its command line: that one brings a shell with it, 10 MiB on every host. Nor with
        # what runs on the control worker's clock: exports and invoices are 40 MiB more.
        app.conf.include = [node_tasks.__name__]
        worker = app.Worker(
            hostname=f"node-{name}@{gethostname()}",
            queues=[orders.queue_of(name)],
            pool_cls="threads",
            concurrency=CONCURRENCY,
            without_mingle=True,
            without_gossip=True,
            without_heartbeat=True,
            loglevel="WARNING",
            quiet=True,
        )
        worker.start()
        if worker.exitcode:
            raise SystemExit(worker.exitcode)

    def _stop_engines(self) -> None:
        left = node_tasks.stop_engines(reason="this node stops its engines", at=timezone.now())
        # The control worker may be down already, and gateways start from what was built last.
        with contextlib.suppress(DatabaseError):
            compiler.build(Part.REPLICAS, at=timezone.now())
        if left:
            raise CommandError(f"processes {sorted(left)} cannot be ended")
