"""`weir gateway`: the data plane, one parent and WEIR_GATEWAY_PROCESSES workers."""

import ipaddress
import sys
from argparse import ArgumentParser
from dataclasses import fields, replace

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from control.gateway import worker
from control.gateway.limits import Limits
from control.gateway.main import Parent
from control.telemetry.otlp import Exporter


class Command(BaseCommand):
    help = "Serve tenants' calls."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--owner", help="run as one worker, under this name (internal)")

    def handle(self, *, owner: str | None, **options) -> None:
        proxies = _networks(settings.WEIR_TRUSTED_PROXIES)
        limits = replace(_limits(settings.WEIR_GATEWAY_LIMITS), trusted_proxies=proxies)
        if owner:
            worker.run(_place(owner), limits)
        else:
            Parent(
                worker_argv=[sys.executable, sys.argv[0], "gateway"],
                processes=settings.WEIR_GATEWAY_PROCESSES,
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


def _place(owner: str) -> worker.Place:
    return worker.Place(
        owner=owner,
        bind=settings.WEIR_BIND,
        port=settings.WEIR_GATEWAY_PORT,
        processes=settings.WEIR_GATEWAY_PROCESSES,
        database_url=settings.WEIR_DATABASE_URL,
        redis_url=settings.REDIS_LIVE_URL,
        home=settings.WEIR_HOME,
    )
