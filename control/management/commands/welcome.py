"""`weir welcome`: the second half of `weir up`: apply, first login and key, progress, card."""

import shutil
import sys
from argparse import ArgumentParser
from pathlib import Path

import yaml
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from control.management.local import card, children, first, progress
from control.management.local.home import Home
from control.models import Replica
from control.routes.facts import routes
from control.states import ReplicaState

LOG_LINES = 15


class Command(BaseCommand):
    help = "Apply a service file, make the first login and key, and show how to call."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--service", type=Path, required=True)
        parser.add_argument("--no-wait", action="store_true", help="do not wait for the model")

    def handle(self, *, service: Path, no_wait: bool, **options) -> None:
        home = Home(settings.WEIR_HOME)
        wanted = yaml.safe_load(service.read_text()) or {}
        served_before = Replica.objects.exclude(ready_at=None).exists()
        call_command("apply", file=str(service), yes=True, stdout=self.stderr)
        shown = self._card(home, wanted)
        if not no_wait and not shown.route_is_ready:
            self.stdout.write(f"console    {shown.console_url}\ngateway    {shown.gateway_url}/v1")
            self._follow(wanted, give_up=not served_before)
            shown = self._card(home, wanted)
        self.stdout.write("\n".join(card.lines(shown)))

    def _follow(self, wanted: dict, *, give_up: bool) -> None:
        names = {one["name"] for one in wanted.get("deployments") or []}
        screen = progress.Screen(sys.stdout, shutil.get_terminal_size().columns)
        hopeless = progress.follow(names, screen, give_up=give_up)
        if not hopeless:
            return
        for one in hopeless:
            screen.note(f"{one.deployment:<10} {one.state}: {one.detail}")
            failed = Replica.objects.filter(
                deployment__name=one.deployment, state=ReplicaState.FAILED
            )
            for line in (failed.order_by("-pk").first() or Replica()).log_tail.splitlines()[
                -LOG_LINES:
            ]:
                screen.note(f"    {line}")
        raise CommandError("the first model could not be served; the reason is above")

    def _card(self, home: Home, wanted: dict) -> card.Card:
        tenants = [one["name"] for one in wanted.get("tenants") or []]
        tenant = tenants[0] if tenants else ""
        named = [one["name"] for one in wanted.get("routes") or []]
        known = {one.name: one for one in routes()}
        route = next((name for name in named if name in known), "")
        key = first.key(home, tenant, at=timezone.now()) if tenant else first.Secret("", "")
        return card.Card(
            console_url=children.url(settings.WEIR_CONSOLE_PORT) + "/",
            gateway_url=children.url(settings.WEIR_GATEWAY_PORT),
            home=home.path,
            login=first.operator(home),
            tenant=tenant,
            key=key,
            route=route,
            route_is_ready=bool(route and known[route].ready_replicas),
            python=Path(sys.executable),
        )
