"""`weir gateway`: the data plane, one parent and WEIR_GATEWAY_PROCESSES workers."""

import ipaddress
import socket
import sys
from argparse import ArgumentParser
from dataclasses import fields, replace

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from control.gateway import sockets, worker
from control.gateway.limits import Limits
from control.gateway.main import Parent
from control.telemetry.otlp import Exporter


class Command(BaseCommand):
    help = "Serve tenants' calls."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--owner", help="run as one worker, under this name (internal)")
        parser.add_argument("--listener", type=int, help="file number of its socket (internal)")
        parser.add_argument("--listeners", default="", help="those of all sockets (internal)")

    def handle(self, *, owner: str | None, listener: int | None, listeners: str, **options) -> None:
        proxies = _networks(settings.WEIR_TRUSTED_PROXIES)
        limits = replace(_limits(settings.WEIR_GATEWAY_LIMITS), trusted_proxies=proxies)
        if owner:
            worker.run(_place(owner, listener), limits)
        else:
            Parent(
                worker_argv=[sys.executable, sys.argv[0], "gateway"],
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


def _limits(given: dict) -> Limits:
    known = {field.name for field in fields(Limits)}
    for name, value in given.items():
        if name not in known:
            raise CommandError(
                f"WEIR_GATEWAY_LIMITS names {name!r}: control/gateway/limits.py has all there are"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise CommandError(f"WEIR_GATEWAY_LIMITS: {name} is {value!r}: a number is wanted")
    return Limits(**given)


def _networks(given: list[str]) -> tuple[str, ...]:
    for name in given:
        try:
            ipaddress.ip_network(name)
        except ValueError:
            raise CommandError(
                f"WEIR_TRUSTED_PROXIES names {name!r}: addresses or networks are wanted, such as"
                " 10.0.0.0/24"
            ) from None
    return tuple(given)


def _sockets(listeners: str) -> list[socket.socket]:
    bind, port = settings.WEIR_BIND, settings.WEIR_GATEWAY_PORT
    try:
        given = sockets.inherited(listeners) or sockets.handed(settings.WEIR_LISTEN)
        return sockets.listening(bind, port, settings.WEIR_GATEWAY_PROCESSES, given)
    except OSError as error:
        raise CommandError(f"cannot listen on {bind} port {port}: {error.strerror}") from None


def _place(owner: str, listener: int) -> worker.Place:
    return worker.Place(
        owner=owner,
        listener=listener,
        processes=settings.WEIR_GATEWAY_PROCESSES,
        database_url=settings.WEIR_DATABASE_URL,
        redis_url=settings.REDIS_LIVE_URL,
        home=settings.WEIR_HOME,
        web_url=settings.WEIR_WEB_URL,
    )
