"""What the file's entries say of each other, and whether it is there: in the file or stored."""

from collections.abc import Iterator

from control.apply.plan import Stored
from control.apply.wanted import Service
from control.catalog.rules import VersionWanted
from control.checks import Problem
from control.fleet.rules import DeploymentWanted, external_problems, sleep_problems
from control.routes.rules import deployments_named, tenants_named
from control.tenancy.rules import DEFAULT_PROJECT


def problems(service: Service, stored: Stored, *, pruning: bool) -> list[Problem]:
    """References that lead nowhere; when pruning, what the file does not name is gone."""
    known = _Known(service, stored, pruning)
    return [
        *_of_keys(service, known),
        *_of_deployments(service, known, stored),
        *_of_routes(service, known),
        *_of_prices(service, known),
        *_of_costs(service, known),
        *_of_exports(service, known),
    ]


class _Known:
    """Answers whether a subject will be there once the file is applied."""

    def __init__(self, service: Service, stored: Stored, pruning: bool):
        self.paths, self.stored, self.pruning = service.paths, stored, pruning

    def missing(self, kind: str, name: str) -> str:
        """Why the subject will not be there, or nothing."""
        if f"{kind} {name}" in self.paths:
            return ""
        if not self.stored.active(kind, name):
            return f"there is no {kind} {name!r}, in the file or stored"
        return f"{kind} {name!r} is not in the file, and --prune removes it" if self.pruning else ""


def _of_keys(service: Service, known: _Known) -> Iterator[Problem]:
    for entry in service.keys:
        wanted = entry.wanted
        path = service.paths[f"key {wanted.tenant}/{wanted.name}"]
        if wanted.project != DEFAULT_PROJECT:
            what = known.missing("project", f"{wanted.tenant}/{wanted.project}")
            yield from _told(f"{path}.project", what)
        for number, route in enumerate(wanted.routes or ()):
            yield from _told(f"{path}.routes[{number}]", known.missing("route", route))


def _of_deployments(service: Service, known: _Known, stored: Stored) -> Iterator[Problem]:
    contents = {f"{entry.model}:{entry.name}": entry.content for entry in service.versions}
    for wanted in service.deployments:
        path = service.paths[f"deployment {wanted.name}"]
        if what := known.missing("model", wanted.model):
            yield Problem(f"{path}.model", what)
            continue
        name = f"{wanted.model}:{wanted.version}"
        if what := known.missing("version", name):
            yield Problem(f"{path}.version", what)
            continue
        seen = stored.get("version", name)
        content = contents.get(name) or seen.wanted
        yield from _of_engine(path, wanted, content)
        if wanted.project:
            yield from _told(f"{path}.project", _no_project(wanted.project, known))
        yield from _told(f"{path}.model", _still_serving(wanted, stored))


def _no_project(name: str, known: _Known) -> str:
    """Every tenant has the project `default`, also one that the file is about to make."""
    tenant, _, project = name.partition("/")
    kind = "tenant" if project == DEFAULT_PROJECT else "project"
    return known.missing(kind, tenant if kind == "tenant" else name)


def _of_engine(path: str, wanted: DeploymentWanted, content: VersionWanted) -> list[Problem]:
    kind = content.engine.kind
    found = external_problems(wanted) if kind == "external" else []
    found += sleep_problems(wanted.scaling, wanted.replicas_min, kind)
    return [problem.under(path) for problem in found]


def _still_serving(wanted: DeploymentWanted, stored: Stored) -> str:
    """Versions replace each other one by one; calls must not be answered by two models."""
    seen = stored.get("deployment", wanted.name)
    if seen is None or not seen.live or seen.wanted.model == wanted.model:
        return ""
    before = seen.wanted.model
    return f"{wanted.name!r} still serves {before!r}: drain it first, or name a new deployment"


def _of_routes(service: Service, known: _Known) -> Iterator[Problem]:
    for wanted in service.routes:
        path = service.paths[f"route {wanted.name}"]
        for place, name in deployments_named(wanted):
            yield from _told(f"{path}.{place}", known.missing("deployment", name))
        for place, name in tenants_named(wanted):
            yield from _told(f"{path}.{place}", known.missing("tenant", name))


def _of_prices(service: Service, known: _Known) -> Iterator[Problem]:
    for wanted in service.prices:
        path = service.paths[f"price {wanted.subject}"]
        yield from _told(f"{path}.model", known.missing("model", wanted.model))
        if wanted.tenant:
            yield from _told(f"{path}.tenant", known.missing("tenant", wanted.tenant))


def _of_costs(service: Service, known: _Known) -> Iterator[Problem]:
    for wanted in service.token_weights:
        path = service.paths[f"token_weight {wanted.subject}"]
        if what := known.missing("model", wanted.model):
            yield Problem(f"{path}.model", what)
        elif wanted.version:
            yield from _told(f"{path}.version", known.missing("version", wanted.subject))
    for wanted in service.variants:
        path = service.paths[f"variant {wanted.subject}"]
        yield from _told(f"{path}.of", known.missing("version", wanted.of))
        yield from _told(f"{path}.version", known.missing("version", wanted.version))


def _of_exports(service: Service, known: _Known) -> Iterator[Problem]:
    for wanted in service.exports:
        path = service.paths[f"export {wanted.name}"]
        if wanted.tenant:
            yield from _told(f"{path}.tenant", known.missing("tenant", wanted.tenant))


def _told(path: str, what: str) -> list[Problem]:
    return [Problem(path, what)] if what else []
