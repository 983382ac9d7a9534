"""The entries of a service.yaml: which members each has, and their defaults."""

from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from control.apply import placing
from control.apply.fields import Fields, Findings
from control.apply.route import bucket
from control.apply.source import source, unsafe
from control.apply.wanted import KeyEntry, VersionEntry
from control.catalog.rules import EngineWanted, VersionWanted, version_problems
from control.checks import Problem, Refused
from control.fleet.recycle import Recycle
from control.fleet.rules import DeploymentWanted, deployment_problems
from control.states import BudgetMode, Priority
from control.tenancy import rules as tenancy
from control.tenancy.rules import (
    BudgetWanted,
    DeviceQuota,
    KeyWanted,
    Limits,
    ProjectWanted,
    TenantWanted,
)

STAND_INS = {
    "currency": "USD",
    "device": "*",
    "pool": "default",
    "owned": None,
    "owned.months": 1,
    "owned.residual": "0",
    "idle": "unallocated",
    "kind": "smaller",
    "interrupted": "",
    "valid_from": None,
    "valid_until": None,
}


def tenant(fields: Fields, findings: Findings) -> TenantWanted:
    """Its projects and keys are read by the caller, who ends the mapping."""
    wanted = TenantWanted(
        name=fields.required("name"),
        priority=fields.text("priority", Priority.STANDARD),
        timezone=fields.text("timezone", "UTC"),
        limits=_limits(fields),
        budget=_budget(fields, findings),
        prepaid=fields.text("prepaid", ""),
        alert_url=fields.text("alert_url", ""),
    )
    findings.add_all(fields.path, tenancy.tenant_problems(wanted))
    return wanted


def project(fields: Fields, findings: Findings, owner: str) -> ProjectWanted:
    wanted = ProjectWanted(
        tenant=owner,
        name=fields.required("name"),
        limits=_limits(fields),
        budget=_budget(fields, findings),
        devices=_devices(fields),
    )
    fields.end()
    findings.add_all(fields.path, tenancy.project_problems(wanted))
    return wanted


def key(fields: Fields, findings: Findings, owner: str) -> KeyEntry:
    wanted = KeyWanted(
        tenant=owner,
        name=fields.required("name"),
        project=fields.text("project", tenancy.DEFAULT_PROJECT),
        routes=fields.texts("routes"),
        expires_at=fields.instant("expires_at"),
        endpoints=fields.texts("endpoints"),
        networks=fields.texts("networks") or (),
        priority=fields.text("priority", None),
        limits=_limits(fields),
        budget=_budget(fields, findings),
    )
    entry = KeyEntry(wanted, fields.text("secret_env", None), fields.flag("rotate"))
    if entry.rotate and not entry.secret_env:
        findings.add(fields.at("rotate"), "needs secret_env, which names the new secret")
    fields.end()
    findings.add_all(fields.path, tenancy.key_problems(wanted))
    return entry


def _devices(fields: Fields) -> DeviceQuota:
    inner = fields.mapping("devices")
    quota = DeviceQuota(inner.whole("guaranteed", 0), inner.whole("maximum"))
    inner.end()
    return quota


def _limits(fields: Fields) -> Limits:
    inner = fields.mapping("limits")
    limits = Limits(**{name: inner.whole(name) for name in Limits.__dataclass_fields__})
    inner.end()
    return limits


def _budget(fields: Fields, findings: Findings) -> BudgetWanted | None:
    if not fields.has("budget"):
        fields.mapping("budget")
        return None
    inner = fields.mapping("budget")
    text, tokens = inner.number("amount"), inner.whole("tokens")
    amount = None if text is None else _decimal(findings, inner.at("amount"), text)
    currency = inner.text("currency", "") if amount is None else inner.required("currency")
    period, mode = inner.text("period", "month"), inner.text("mode", BudgetMode.HARD)
    budget = BudgetWanted(amount, currency, period, tokens, mode)
    inner.end()
    return budget


def _decimal(findings: Findings, path: str, text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        findings.add(path, f"{text!r} is no amount")
        return Decimal(0)
    return value


def version(fields: Fields, findings: Findings, model: str, stub_allowed: bool) -> VersionEntry:
    name = fields.required("name")
    inner = fields.mapping("engine")
    engine = EngineWanted(
        kind=inner.required("kind"),
        version=inner.text("version"),
        url=inner.text("url"),
        served_name=inner.text("served_name"),
        shared=inner.flag("shared"),
    )
    api_key_env = inner.text("api_key_env", None)
    inner.end()
    content = VersionWanted(
        engine=engine,
        source=source(fields),
        arguments=fields.free("arguments"),
        memory=_members(fields, "memory", ("kv_tokens", "calls"), Fields.whole),
        unsafe=unsafe(fields),
    )
    fields.end()
    if api_key_env and engine.kind != "external":
        findings.add(inner.at("api_key_env"), "does not belong to an engine of this kind")
    problems = version_problems(model, name, content, stub_allowed=stub_allowed)
    of_the_model = [problem for problem in problems if problem.field == "model"]
    outside = fields.path.rpartition(".")[0]
    findings.add_all(outside, [Problem("name", problem.what) for problem in of_the_model])
    findings.add_all(fields.path, [entry for entry in problems if entry not in of_the_model])
    return VersionEntry(model, name, content, api_key_env)


def _members(fields: Fields, name: str, known: tuple[str, ...], read: Callable) -> dict | None:
    """A mapping of which some members are there; None if it is absent."""
    there = fields.has(name)
    inner = fields.mapping(name)
    values = {member: read(inner, member, None) for member in known}
    inner.end()
    return (
        {member: value for member, value in values.items() if value is not None} if there else None
    )


def deployment(fields: Fields, findings: Findings) -> DeploymentWanted:
    inner = fields.mapping("replicas")
    least = inner.whole("min", 1)
    wanted = DeploymentWanted(
        name=fields.required("name"),
        model=fields.required("model"),
        version=fields.required("version"),
        replicas_min=least,
        replicas_max=inner.whole("max", max(least, 1)),
        node=fields.text("node", ""),
        bucket=bucket(fields),
        recycle=_recycle(fields),
        allow_shorter_context=fields.flag("allow_shorter_context"),
        **placing.members(fields),
    )
    inner.end()
    fields.end()
    findings.add_all(fields.path, deployment_problems(wanted))
    return wanted


def _recycle(fields: Fields) -> Recycle | None:
    there = fields.has("recycle")
    inner = fields.mapping("recycle")
    wanted = Recycle(
        calls=inner.whole("calls", None),
        hours=inner.real("hours", None),
        host_memory_growth=inner.real("host_memory_growth", None),
    )
    inner.end()
    return wanted if there and wanted != Recycle() else None


def all_bad(make: Callable, values: dict, path: str, findings: Findings):
    """Make it, noting every bad field: a good value stands in for each, then it is tried again."""
    values = dict(values)
    for _ in range(len(values) + 1):
        try:
            return make(values)
        except Refused as refused:
            findings.add_all(path, refused.problems)
            for problem in refused.problems:
                values[problem.field] = STAND_INS.get(problem.field, "1")
    return None
