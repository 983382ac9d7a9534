"""service.yaml → Service. Refuses, with line and field, whatever it does not understand."""

from collections.abc import Callable

from control.apply import billing, costs, document, entries, prices, wanted
from control.apply.fields import Fields, Findings
from control.apply.route import route
from control.apply.wanted import BadFile, Misfit, Service
from control.checks import Problem
from control.metering.invoices.wanted import TermsWanted

API_VERSION = "weir/v1"


def read(text: str, *, stub_allowed: bool = False) -> tuple[Service, list[Problem]]:
    """What can be read, and what is wrong with the rest, so that more may be found wrong with it.

    BadFile only when there is nothing to read.
    """
    try:
        root = document.read(text)
    except document.Unreadable as unreadable:
        raise BadFile([Misfit(unreadable.line, Problem("", unreadable.what))]) from None
    findings = Findings()
    reader = _Reader(findings)
    service = reader.service(Fields(root, "", findings), stub_allowed)
    return service, findings.problems


class _Reader:
    """Reads the lists of the file, noting where each subject stands."""

    def __init__(self, findings: Findings):
        self.findings = findings
        self.paths: dict[str, str] = {}

    def service(self, root: Fields, stub_allowed: bool) -> Service:
        version = root.required("apiVersion")
        if version not in ("", API_VERSION):
            self.findings.add("apiVersion", f"{version!r} is not understood; {API_VERSION} is")
        tenants, projects, keys = self.tenants(root)
        models, versions = self.models(root, stub_allowed)
        service = Service(
            tenants=tenants,
            projects=projects,
            keys=keys,
            models=models,
            versions=versions,
            deployments=self.flat(root, "deployment", "name", entries.deployment),
            routes=self.flat(root, "route", "name", route),
            prices=self.flat(root, "price", "subject", prices.price),
            cost_rates=self.flat(root, "cost_rate", "subject", costs.cost_rate),
            cost_pools=self.flat(root, "cost_pool", "pool", costs.cost_pool),
            token_weights=self.flat(root, "token_weight", "subject", costs.token_weight),
            variants=self.flat(root, "variant", "subject", costs.variant),
            billing=self.billing(root),
            exports=self.flat(root, "export", "name", billing.export),
            paths=self.paths,
            lines=self.findings.lines,
        )
        root.end()
        return service

    def tenants(self, root: Fields) -> tuple[tuple, tuple, tuple]:
        tenants, projects, keys = [], [], []
        for fields in root.items("tenants"):
            tenant = entries.tenant(fields, self.findings)
            self.note("tenant", tenant.name, fields)
            tenants.append(tenant)
            for inner in fields.items("projects"):
                project = entries.project(inner, self.findings, tenant.name)
                self.note("project", f"{tenant.name}/{project.name}", inner)
                projects.append(project)
            for inner in fields.items("keys"):
                key = entries.key(inner, self.findings, tenant.name)
                self.note("key", f"{tenant.name}/{key.wanted.name}", inner)
                keys.append(key)
            fields.end()
        return tuple(tenants), tuple(projects), tuple(keys)

    def models(self, root: Fields, stub_allowed: bool) -> tuple[tuple, tuple]:
        models, versions = [], []
        for fields in root.items("models"):
            name = fields.required("name")
            self.note("model", name, fields)
            models.append(name)
            found = fields.items("versions")
            if not found:
                what = "is required: a model is served by its versions"
                self.findings.add(fields.at("versions"), what)
            for inner in found:
                entry = entries.version(inner, self.findings, name, stub_allowed)
                self.note("version", f"{name}:{entry.name}", inner)
                versions.append(entry)
            fields.end()
        return tuple(models), tuple(versions)

    def billing(self, root: Fields) -> TermsWanted | None:
        is_there = root.has("billing")
        fields = root.mapping("billing")
        if not is_there:
            return None
        self.note("billing", billing.TERMS, fields)
        return billing.billing(fields, self.findings)

    def flat(self, root: Fields, kind: str, named_by: str, read_entry: Callable) -> tuple:
        """One top-level list whose entries hold no other named objects."""
        found = []
        for fields in root.items(f"{kind}s"):
            if (entry := read_entry(fields, self.findings)) is not None:
                self.note(kind, getattr(entry, named_by), fields)
                found.append(entry)
        return tuple(found)

    def note(self, kind: str, name: str, fields: Fields) -> None:
        """Remember where a subject stands; the second of a name is refused."""
        subject = f"{kind} {name}"
        if name and (first := self.paths.get(subject)):
            line = wanted.line_of(self.findings.lines, first)
            what = f"{subject.replace('_', ' ')} is named twice (first in line {line})"
            self.findings.add(fields.path, what)
        self.paths.setdefault(subject, fields.path)
