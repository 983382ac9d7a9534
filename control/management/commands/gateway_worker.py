"""One worker of `weir gateway`, which starts it: apart, since it loads less than that does."""

from argparse import ArgumentParser

from django.conf import settings
from django.core.management.base import BaseCommand

from control.gateway.process import worker
from control.management.gateways import limits_given


class Command(BaseCommand):
    help = "Serve on a socket of `weir gateway` (internal)."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--owner", required=True, help="the name it goes by")
        parser.add_argument("--listener", type=int, required=True, help="file number of its socket")

    def handle(self, *, owner: str, listener: int, **options) -> None:
        worker.run(_place(owner, listener), limits_given())


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
