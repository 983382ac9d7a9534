"""`weir gateway`: the data plane, one parent and WEIR_GATEWAY_PROCESSES workers."""

import socket
import sys
from argparse import ArgumentParser

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from control.gateway.process import sockets, succession
from control.gateway.process.parent import Parent
from control.gateway.process.worker import spool_folder
from control.management.gateways import limits_given
from control.management.local.ports import why_not
from control.telemetry.otlp import Exporter


class Command(BaseCommand):
    help = "Serve tenants' calls."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--listeners", default="", help="those of all sockets (internal)")

    def handle(self, *, listeners: str, **options) -> None:
        limits = limits_given()
        Parent(
            worker_argv=[sys.executable, sys.argv[0], "gateway_worker"],
            sockets=_sockets(listeners),
            home=settings.WEIR_HOME,
            metrics_port=settings.WEIR_METRICS_PORT,
            drain_seconds=limits.drain_seconds,
            exporter=_exporter(settings.WEIR_OTLP_ENDPOINT),
        ).run()


def _exporter(endpoint: str) -> Exporter | None:
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise CommandError(f"WEIR_OTLP_ENDPOINT is {endpoint!r}: an http(s) address is wanted")
    return Exporter(endpoint) if endpoint else None


def _sockets(listeners: str) -> list[socket.socket]:
    bind, port = settings.WEIR_BIND, settings.WEIR_GATEWAY_PORT
    try:
        given = sockets.inherited(listeners) or sockets.handed(settings.WEIR_LISTEN)
        if not given and (why := _why_not(bind, port)):
            raise CommandError(f"cannot listen on {bind} port {port}: {why}")
        return sockets.listening(bind, port, settings.WEIR_GATEWAY_PROCESSES, given)
    except OSError as error:
        raise CommandError(f"cannot listen on {bind} port {port}: {error.strerror}") from None


def _why_not(bind: str, port: int) -> str:
    """The kernel would share calls out between this gateway and another one of this port. Workers
    that outlived the parent before this one may have it: they go when ours serve."""
    return "" if succession.is_outlived(spool_folder(settings.WEIR_HOME)) else why_not(port, bind)
