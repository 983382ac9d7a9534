"""`weir welcome`: the second half of `weir up`: apply, first login and key, progress, card."""

import json
import os
import shlex
import shutil
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from control.apply.actions import Applied, apply
from control.apply.wanted import BadFile
from control.management.local import card, first, progress
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
        text = service.read_text()
        served_before = Replica.objects.exclude(ready_at=None).exists()
        applied = self._apply(service, text)
        wanted = yaml.safe_load(text)
        shown = self._card(home, wanted, applied.secrets)
        if not no_wait:
            self.stdout.write(f"console    {shown.console_url}\ngateway    {shown.gateway_url}/v1")
            self._follow(_names(wanted, "deployments"), give_up=not served_before)
            shown = self._card(home, wanted, {})
        self.stdout.write("\n".join(card.lines(shown)))

    def _apply(self, service: Path, text: str) -> Applied:
        try:
            applied = apply(
                text,
                environment=os.environ,  # secrets that the file names, of whoever starts Weir
                carry_out=True,
                by="weir up",
                reason=f"weir up --service {service.name}"[:200],
                at=timezone.now(),
            )
        except BadFile as bad:
            raise CommandError("\n".join(f"{service}:{misfit}" for misfit in bad.misfits)) from None
        changes = len(applied.plan.changes)
        self.stdout.write(f"{'apply':<10} {service.name}: {changes or 'no'} changes")
        return applied

    def _follow(self, names: list[str], *, give_up: bool) -> None:
        screen = progress.Screen(sys.stdout, shutil.get_terminal_size().columns)
        hopeless = progress.follow(set(names), screen, give_up=give_up)
        for one in hopeless:
            screen.note(f"{one.deployment:<10} {one.state}: {one.detail}")
            for line in _last_words(one.deployment):
                screen.note(f"    {line}")
        if hopeless:
            raise CommandError("the first model could not be served, for the reason above")

    def _card(self, home: Home, wanted: dict, made: dict[str, str]) -> card.Card:
        tenant = next(iter(_names(wanted, "tenants")), "")
        own = (secret for name, secret in made.items() if name.startswith(f"{tenant}/"))
        known = {one.name: one for one in routes()}
        route = next(iter(_names(wanted, "routes")), "")
        key = first.Secret("", "")
        if tenant:
            key = first.key(home, tenant, next(own, None), at=timezone.now())
        return card.Card(
            console_url=settings.WEIR_CONSOLE_URL + "/",
            gateway_url=settings.WEIR_GATEWAY_URL,
            home=home.path,
            login=first.operator(home),
            tenant=tenant,
            key=key,
            route=route,
            route_is_ready=bool(route and known[route].ready_replicas),
            python=Path(sys.executable),
            weir=_command(home),
            terms=tuple(terms(settings.WEIR_WEIGHTS, wanted)),
        )


def _command(home: Home) -> str:
    command = str(Path(sys.executable).parent / "weir")
    by_default = home.path == settings.BASE_DIR / ".weir"
    return command if by_default else f"WEIR_HOME={shlex.quote(str(home.path))} {command}"


def _names(wanted: dict, kind: str) -> list[str]:
    return [one["name"] for one in wanted.get(kind) or []]


def terms(weights: Path, wanted: dict) -> Iterator[str]:
    """Of the file's models whose weights are here: what the fetcher noted beside them."""
    versions = [one for model in wanted.get("models") or [] for one in model["versions"]]
    for manifest in sorted(weights.glob("*/weir.json")):
        try:
            noted = json.loads(manifest.read_text())
        except ValueError:
            continue
        if any(_is_of(noted["source"], one.get("source") or {}) for one in versions):
            yield f"{noted['licence']} in {manifest.parent}"


def _is_of(noted: dict, source: dict) -> bool:
    return bool(source) and all(noted.get(name) == value for name, value in source.items())


def _last_words(deployment: str) -> list[str]:
    failed = Replica.objects.filter(deployment__name=deployment, state=ReplicaState.FAILED)
    last = failed.order_by("-pk").first()
    return last.log_tail.splitlines()[-LOG_LINES:] if last else []
