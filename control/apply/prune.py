"""What --prune takes away: whatever the file does not name. Nothing is deleted, only put aside."""

from control.apply.plan import Step, Stored, Verb
from control.apply.wanted import Service
from control.tenancy.rules import DEFAULT_PROJECT, OPERATORS


def steps(service: Service, stored: Stored) -> tuple[Step, ...]:
    """Callers first: routes, then deployments, keys, versions and models, projects, tenants.

    Prices and cost rates stay: they are history; so do billing terms, which invoices need. The
    platform's own tenant is not the file's.
    """
    rest = {kind: _unnamed(kind, service, stored) for kind in _KINDS}
    tenants, models = set(rest["tenant"]), set(rest["model"])
    return (
        *(Step(Verb.REMOVE, "export", name, note=STAYS) for name in rest["export"]),
        *_archive("route", rest["route"]),
        *(step for name in rest["deployment"] for step in _deployment(name, stored)),
        *(_revoke(name) for name in rest["key"] if _owner(name) not in tenants),
        *_archive("version", [name for name in rest["version"] if _model(name) not in models]),
        *_archive("model", rest["model"]),
        *_archive("project", [name for name in rest["project"] if _owner(name) not in tenants]),
        *_archive("tenant", rest["tenant"]),
    )


STAYS = "what it wrote stays"
_KINDS = ("export", "route", "deployment", "key", "version", "model", "project", "tenant")


def _unnamed(kind: str, service: Service, stored: Stored) -> list[str]:
    names = [name for name in stored.names(kind) if f"{kind} {name}" not in service.paths]
    return [name for name in names if not _ours(kind, name)]


def _ours(kind: str, name: str) -> bool:
    if kind == "project" and name.endswith(f"/{DEFAULT_PROJECT}"):
        return True
    return kind in ("tenant", "project", "key") and _owner(name) == OPERATORS


def _owner(name: str) -> str:
    return name.partition("/")[0]


def _model(name: str) -> str:
    return name.partition(":")[0]


def _archive(kind: str, names: list[str]) -> list[Step]:
    note = "its keys open no door any more" if kind == "tenant" else ""
    return [Step(Verb.ARCHIVE, kind, name, note=note) for name in names]


def _revoke(name: str) -> Step:
    return Step(Verb.REVOKE, "key", name)


def _deployment(name: str, stored: Stored) -> list[Step]:
    """Drained now, archived as soon as no replica of it lives."""
    seen = stored.get("deployment", name)
    found = [] if seen.draining else [Step(Verb.DRAIN, "deployment", name)]
    if seen.live == 0:
        return [*found, Step(Verb.ARCHIVE, "deployment", name)]
    left = f"{seen.live} replica(s) left"
    return found or [Step(Verb.UNCHANGED, "deployment", name, note=f"draining, {left}")]
