"""service.yaml → Service. Refuses, with line and field, whatever it does not understand."""

from collections.abc import Callable

from control.apply import document, entries, wanted
from control.apply.fields import Fields, Findings
from control.apply.wanted import BadFile, Misfit, Service
from control.checks import Problem

API_VERSION = "weir/v1"


def parse(text: str, *, stub_allowed: bool = False) -> Service:
    """Everything the file asks for, or BadFile with everything that is wrong with it."""
    service, problems = read(text, stub_allowed=stub_allowed)
    if problems:
        raise BadFile(wanted.misfits(service.lines, problems))
    return service


def read(text: str, *, stub_allowed: bool = False) -> tuple[Service, list[Problem]]:
    """What can be read, and what is wrong with the rest, so that more may be found wrong with it.

    BadFile only when there is nothing to read.
    """
    try:
        root = document.read(text)
    except document.Unreadable as unreadable:
        raise BadFile([Misfit(unreadable.line, Problem("", unreadable.what))]) from None
    findings = Findings()
    service = _service(Fields(root, "", findings), findings, stub_allowed)
    return service, findings.problems


def _service(root: Fields, findings: Findings, stub_allowed: bool) -> Service:
    version = root.required("apiVersion")
    if version not in ("", API_VERSION):
        findings.add("apiVersion", f"{version!r} is not understood; {API_VERSION} is")
    paths: dict[str, str] = {}
    tenants, projects, keys = [], [], []
    for fields in root.items("tenants"):
        tenant = entries.tenant(fields, findings)
        tenants.append(tenant)
        _note(paths, findings, "tenant", tenant.name, fields.path)
        for inner in fields.items("projects"):
            project = entries.project(inner, findings, tenant.name)
            projects.append(project)
            _note(paths, findings, "project", f"{tenant.name}/{project.name}", inner.path)
        for inner in fields.items("keys"):
            key = entries.key(inner, findings, tenant.name)
            keys.append(key)
            _note(paths, findings, "key", f"{tenant.name}/{key.wanted.name}", inner.path)
        fields.end()
    models, versions = [], []
    for fields in root.items("models"):
        name = fields.required("name")
        models.append(name)
        _note(paths, findings, "model", name, fields.path)
        inners = fields.items("versions")
        if not inners:
            findings.add(fields.at("versions"), "is required: a model is served by its versions")
        for inner in inners:
            entry = entries.version(inner, findings, name, stub_allowed)
            versions.append(entry)
            _note(paths, findings, "version", f"{name}:{entry.name}", inner.path)
        fields.end()
    service = Service(
        tenants=tuple(tenants),
        projects=tuple(projects),
        keys=tuple(keys),
        models=tuple(models),
        versions=tuple(versions),
        deployments=_flat(root, findings, paths, "deployment", entries.deployment),
        routes=_flat(root, findings, paths, "route", entries.route),
        prices=_flat(root, findings, paths, "price", entries.price),
        cost_rates=_flat(root, findings, paths, "cost_rate", entries.cost_rate),
        paths=paths,
        lines=findings.lines,
    )
    root.end()
    return service


def _flat(root: Fields, findings: Findings, paths: dict, kind: str, read: Callable) -> tuple:
    """One top-level list whose entries hold no other named objects."""
    found = []
    for fields in root.items(f"{kind}s"):
        entry = read(fields, findings)
        if entry is None:
            continue
        found.append(entry)
        name = next(getattr(entry, name) for name in NAMED_BY if hasattr(entry, name))
        _note(paths, findings, kind, name, fields.path)
    return tuple(found)


NAMED_BY = ("name", "device", "model")


def _note(paths: dict[str, str], findings: Findings, kind: str, name: str, path: str) -> None:
    """Remember where a subject stands; the second of a name is refused."""
    subject = f"{kind} {name}"
    if name and subject in paths:
        line = findings.lines.get(paths[subject], 1)
        findings.add(path, f"{subject.replace('_', ' ')} is named twice (first in line {line})")
    paths.setdefault(subject, path)
