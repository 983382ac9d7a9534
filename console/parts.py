"""Facts → the context of one live part; the page and the consumer both render through it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest
from django.template.loader import render_to_string

from console.access import is_operator
from console.charts import CHARTS
from control.autoscaling import facts as autoscaling
from control.catalog import facts as catalog
from control.catalog import fitting
from control.fleet import facts as fleet
from control.fleet.disk import facts as disk
from control.fleet.incidents import facts as fleet_incidents
from control.fleet.nodes import facts as machines
from control.fleet.troubles import facts as troubles
from control.metering import spending, watermarks
from control.metering.alerts import facts as alerts
from control.metering.drift import books
from control.metering.invoices import facts as invoices
from control.recovery import facts as recovery
from control.routes import facts as routes
from control.states import NodeState, ReplicaState
from control.telemetry import store
from control.telemetry.messages import DEVICE
from control.tenancy.members.facts import tenant_of

BANNERS_MAX = 5
TROUBLES_MAX = 20
INCIDENTS_SHOWN = 100
PERIODS_MAX = 50
MENU = (
    ("Overview", "overview", "dashboard"),
    ("Deployments", "deployments", "stack-2"),
    ("Nodes", "nodes", "server-2"),
    ("Models", "models", "box"),
    ("Tenants", "tenants", "building"),
    ("Keys", "keys", "key"),
    ("Usage", "usage", "chart-bar"),
    ("Costs", "costs", "bolt"),
    ("Budgets", "budgets", "coin"),
    ("Prices", "prices", "gauge"),
    ("Invoices", "invoices", "receipt"),
    ("Exports", "exports", "download"),
    ("Playground", "playground", "message-bolt"),
    ("Audit", "audit", "history"),
)
OF_OVERVIEW = ("", "incidents")  # where addresses of its pages begin
OWN_MENU = (
    ("Usage", "own", "chart-bar"),
    ("Calls", "own-calls", "activity"),
    ("Budgets", "own-budgets", "coin"),
    ("Invoices", "own-invoices", "inbox"),
    ("Password", "own-password", "key"),
)

DRIFT_HOURS, DRIFT_ROWS, INCIDENTS = 48, 200, 20


@dataclass(frozen=True)
class MenuEntry:
    title: str
    address: str
    icon: str
    active: bool


class Rows:
    """What a Paginator cuts pages from: a count, and a reader of a span of rows."""

    def __init__(self, count: int, read: Callable[..., list]):
        self._count = count
        self._read = read

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, span: slice) -> list:
        return self._read(first=span.start, count=span.stop - span.start)


def menu(request: HttpRequest) -> dict:
    """Context processor: the sidebar, with the entry that the page belongs to."""
    route = request.resolver_match.route if request.resolver_match else "none"
    first, second, *_ = f"{route}//".split("/")
    user = getattr(request, "user", None)
    if is_operator(user) and not getattr(request, "tenant", None):
        here = "overview" if first in OF_OVERVIEW else first
        return {"menu": _entries(MENU, here), "home": "overview"}
    # Also where no view was reached: who looks for an address sees no menu of others.
    is_member = getattr(request, "tenant", None) or tenant_of(user)
    here = f"own-{second}" if second else first
    return {"menu": _entries(OWN_MENU, here) if is_member else [], "home": "own"}


def _entries(entries: tuple[tuple[str, str, str], ...], here: str) -> list[MenuEntry]:
    return [MenuEntry(*entry, entry[1] == here) for entry in entries]


def overview(at: datetime, _: str = "") -> dict:
    nodes = machines.nodes()
    deployments = fleet.deployments()
    devices = [device for node in nodes for device in node.devices]
    return {
        "now": at,
        "charts": CHARTS,
        "routes": routes.routes(),
        "deployments": deployments,
        "replicas_ready": sum(deployment.ready for deployment in deployments),
        "replicas_wanted": sum(deployment.wanted for deployment in deployments),
        "nodes_ready": sum(node.state == NodeState.READY for node in nodes),
        "nodes": len(nodes),
        "devices": len(devices),
        "memory_total_bytes": sum(device.memory_total_bytes for device in devices),
        "memory_booked_bytes": sum(device.booked_bytes for device in devices),
        "drift_incidents": books.open_count(),
        **_troubles(deployments, nodes, at),
        **_alerts(),
    }


def _troubles(deployments: list, nodes: list, at: datetime) -> dict:
    """What is open, and which deployments fare badly that nothing of it names."""
    found = troubles.of(deployments, nodes, at)
    named = {one.about for one in found if one.is_urgent}
    others = [one for one in deployments if _in_trouble(one) and one.name not in named]
    more = max(0, len(found) - TROUBLES_MAX)
    return {"open": found[:TROUBLES_MAX], "open_more": more, "troubles": others}


def budgets(at: datetime, _: str = "") -> dict:
    return {"now": at, "uses": spending.budgets(at), **_alerts()}


def periods(at: datetime, _: str = "") -> dict:
    return {"now": at, "periods": invoices.period_list(at, count=PERIODS_MAX)}


def _alerts() -> dict:
    found = alerts.unseen(BANNERS_MAX + 1)
    return {"unseen": found[:BANNERS_MAX], "unseen_more": len(found) > BANNERS_MAX}


def deployments(at: datetime, _: str = "") -> dict:
    return {"now": at, "deployments": fleet.deployments()}


def deployment(at: datetime, name: str) -> dict:
    found = fleet.deployment(name)
    return {
        "now": at,
        "deployment": found,
        "sizing": found and autoscaling.sizing(name),
        "overrides": recovery.of_deployment(name),
        "blamed": recovery.blamed(name, at),
    }


def replica(at: datetime, replica_id: str) -> dict:
    log = fleet.replica_log(int(replica_id)) if replica_id.isdecimal() else None
    return {"now": at, "log": log}


def nodes(at: datetime, _: str = "") -> dict:
    found = machines.nodes()
    uuids = [device.uuid for node in found for device in node.devices]
    return {"now": at, "nodes": found, "utilisation": _utilisation(uuids)}


def node(at: datetime, name: str) -> dict:
    found = machines.node(name)
    devices = found.devices if found else ()
    names = {device.uuid: f"{device.index} {device.name}" for device in devices}
    links = [
        {"one": names[device.uuid], "other": names.get(link.uuid, link.uuid), "kind": link.kind}
        for device in devices
        for link in device.links
        if device.uuid < link.uuid
    ]
    shown = {"now": at, "node": found, "links": links, "utilisation": _utilisation(list(names))}
    return shown | disk.of_node(name)


def models(at: datetime) -> dict:
    return {"now": at, "models": catalog.models(), "routes": routes.routes(archived=True)}


def model(at: datetime, name: str) -> dict | None:
    """Where its versions fit; None if there is no such model."""
    if not catalog.exists(name):
        return None
    return {"name": name, "versions": fitting.of_model(name)} | weights(at, name)


def weights(at: datetime, name: str) -> dict:
    """Which nodes have a model's weights, and how far the others are: what moves on its page."""
    return {"now": at, "weights": disk.weights_of(name)}


def route(at: datetime, name: str) -> dict:
    return {"now": at, "route": routes.route(name)}


def drift(at: datetime, _: str = "") -> dict:
    hours = books.hours(books.hours_before(at, DRIFT_HOURS), limit=DRIFT_ROWS)
    return {
        "now": at,
        "hours": hours,
        "incidents": books.open_incidents(limit=INCIDENTS),
        "stored": watermarks.stored(at),
        "unread": books.unread(),
    }


def incidents(at: datetime, _: str = "") -> dict:
    found = fleet_incidents.incidents(count=INCIDENTS_SHOWN)
    return {"now": at, "incidents": found, "alert_url": fleet_incidents.url()}


PARTS: dict[str, Callable[[datetime, str], dict]] = {
    "overview": overview,
    "deployments": deployments,
    "deployment": deployment,
    "replica": replica,
    "nodes": nodes,
    "node": node,
    "budgets": budgets,
    "model": weights,
    "drift": drift,
    "incidents": incidents,
    "periods": periods,
}


def html(name: str, at: datetime, about: str = "") -> str:
    return render_to_string(f"parts/{name}.html", PARTS[name](at, about))


def _utilisation(uuids: list[str]) -> dict[str, float]:
    """Device uuid → how busy it is now, of those that are heard; none without Valkey."""
    samples = store.heard([f"{DEVICE}:{uuid}" for uuid in uuids])
    return {sample.uuid: sample.utilisation_ratio for sample in samples.values()}


def _in_trouble(deployment: fleet.DeploymentFacts) -> bool:
    return deployment.standing.state in {
        "failed",
        "degraded",
        ReplicaState.UNHEALTHY,
        ReplicaState.LOST,
    }
