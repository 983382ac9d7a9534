"""`weir status`: what runs, what is ready, and what is missing; the exit code says it short."""

import json
from argparse import ArgumentParser
from dataclasses import dataclass

import httpx
import psutil
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseError
from django.utils import timezone

from control.fleet import facts as fleet
from control.fleet.nodes import facts as machines
from control.fleet.troubles import facts as troubles
from control.management.local.home import Home
from control.management.shell import database_away, require_database
from control.routes import facts as routes
from control.states import REPLICA_BEFORE_READY
from control.telemetry import store
from control.telemetry.messages import GATEWAY, GatewaySample
from control.tenancy import facts as tenancy

READY, FAILED, STARTING = 0, 1, 3
GATEWAY_SECONDS_MAX = 2.0


@dataclass(frozen=True)
class GatewayStanding:
    url: str
    answers: bool
    ready: bool
    snapshot_age_seconds: float | None = None


class Command(BaseCommand):
    help = "Say what runs: 0 every route has a ready replica, 3 still starting, 1 otherwise."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object on stdout")

    def handle(self, *, json: bool, **options) -> None:  # noqa: A002  the option's own name
        gateway, starts = _ask_gateway(), _starts()
        try:
            require_database()
            status = _status(gateway)
        except (CommandError, DatabaseError) as error:
            if not starts:  # exits with FAILED, as every refusal does
                raise error if isinstance(error, CommandError) else database_away(error) from None
            status = _nothing_yet(gateway)
        self.stdout.write(_as_json(status) if json else _as_text(status))
        raise SystemExit(verdict(status, gateway, starts=starts))


def verdict(status: dict, gateway: GatewayStanding, *, starts: bool = False) -> int:
    """Ready when every route is; starting when all that is missing is on its way."""
    if not gateway.answers:
        return STARTING if starts else FAILED
    waiting = [route for route in status["routes"] if not route["ready_replicas"]]
    if status["routes"] and not waiting:
        return READY if gateway.ready else STARTING
    coming = {str(state) for state in REPLICA_BEFORE_READY} | {"ready", "degraded", "asleep"}
    stuck = [one for one in status["deployments"] if one["state"] not in coming]
    return FAILED if stuck else STARTING


def _status(gateway: GatewayStanding) -> dict:
    heard = _gateways()
    ages = [one.snapshot_age_seconds for one in (gateway, *heard)]
    return {
        "version": settings.VERSION,
        "gateway": {"url": gateway.url, "ready": gateway.ready},
        "tenants": [{"name": tenant.name} for tenant in tenancy.tenants(archived=False)],
        "routes": [
            {"name": route.name, "ready_replicas": route.ready_replicas}
            for route in routes.routes()
        ],
        "deployments": [
            {
                "name": deployment.name,
                "wanted": deployment.wanted,
                "ready": deployment.ready,
                "state": deployment.standing.state,
                "reason": deployment.standing.reason,
            }
            for deployment in fleet.deployments()
        ],
        "nodes": [{"name": node.name, "state": node.state} for node in machines.nodes()],
        "troubles": [
            {"kind": one.kind, "about": one.about, "what": one.what}
            for one in troubles.troubles(timezone.now())
        ],
        "snapshot_age_seconds": max((age for age in ages if age is not None), default=None),
        "spool_events": sum(one.spool_events for one in heard) if heard else None,
    }


def _starts() -> bool:
    """Whether a supervisor of this home lives and has not brought everything up yet."""
    running = Home(settings.WEIR_HOME).running()
    return running.stage == "starting" and psutil.pid_exists(running.pid)


def _nothing_yet(gateway: GatewayStanding) -> dict:
    """The same members, while there is no database to read them from."""
    lists = ("tenants", "routes", "deployments", "nodes", "troubles")
    return {
        "version": settings.VERSION,
        "gateway": {"url": gateway.url, "ready": gateway.ready},
        **{name: [] for name in lists},
        "snapshot_age_seconds": gateway.snapshot_age_seconds,
        "spool_events": None,
    }


def _ask_gateway() -> GatewayStanding:
    url = settings.WEIR_GATEWAY_URL
    try:
        answer = httpx.get(f"{url}/ready", timeout=GATEWAY_SECONDS_MAX, trust_env=False)
    except httpx.HTTPError:
        return GatewayStanding(url, answers=False, ready=False)
    return GatewayStanding(
        url,
        answers=True,
        ready=answer.status_code == httpx.codes.OK,
        snapshot_age_seconds=_age(answer),
    )


def _age(answer: httpx.Response) -> float | None:
    try:
        return answer.json().get("snapshot_age_seconds")
    except (ValueError, AttributeError):
        return None


def _gateways() -> list[GatewaySample]:
    """Workers heard in the last seconds; none when Valkey is away."""
    return [
        sample for sample in store.heard(kind=GATEWAY).values() if isinstance(sample, GatewaySample)
    ]


def _as_json(status: dict) -> str:
    return json.dumps(status, indent=2)


def _as_text(status: dict) -> str:
    gateway = status["gateway"]
    lines = [
        f"Weir {status['version']}",
        f"gateway      {gateway['url']}  {'ready' if gateway['ready'] else 'not ready'}",
    ]
    lines += [f"node         {node['name']}  {node['state']}" for node in status["nodes"]]
    lines += [
        f"deployment   {one['name']}  {one['state']}: {one['reason']}"
        for one in status["deployments"]
    ]
    lines += [
        f"route        {route['name']}  {route['ready_replicas']} ready replicas"
        for route in status["routes"]
    ]
    lines += [
        f"trouble      {one['about']}  {one['kind']}: {one['what']}" for one in status["troubles"]
    ]
    if not status["routes"]:
        lines.append("route        none yet: `weir apply -f service.yaml --yes` makes them")
    if status["snapshot_age_seconds"] is not None:
        lines.append(f"snapshot     {status['snapshot_age_seconds']:.1f} s old")
    if status["spool_events"] is not None:
        lines.append(f"spool        {status['spool_events']} events not shipped yet")
    return "\n".join(lines)
