"""One wanted object → its fields by name, so that file and database are compared alike. Pure."""

from dataclasses import asdict
from decimal import Decimal

from control.apply import placing
from control.apply.plan import Change
from control.catalog.advice.rules import VariantWanted
from control.catalog.rules import VersionWanted
from control.checks import Bucket
from control.fleet import recycle
from control.fleet.rules import DeploymentWanted
from control.metering.cost.wanted import CostPoolWanted, CostRateWanted, TokenWeightsWanted
from control.metering.exports.wanted import FOCUS, ScheduleWanted
from control.metering.invoices.wanted import TermsWanted
from control.metering.prices.wanted import PriceWanted
from control.routes.wanted import ModerationWanted, RouteWanted, RuleWanted, TargetWanted
from control.tenancy.rules import BudgetWanted, KeyWanted, Limits, ProjectWanted, TenantWanted


def fields(wanted: object) -> dict[str, object]:
    return FLAT[type(wanted)](wanted)


def changes(before: object | None, after: object) -> tuple[Change, ...]:
    """Every field that has a value of what is new; the fields that differ of what is stored."""
    new = fields(after)
    if before is None:
        return tuple(Change(name, None, value) for name, value in new.items() if value is not None)
    old = fields(before)
    return tuple(
        Change(name, old.get(name), new.get(name))
        for name in dict.fromkeys([*new, *old])
        if old.get(name) != new.get(name)
    )


def _tenant(wanted: TenantWanted) -> dict:
    own = {
        "priority": str(wanted.priority),
        "timezone": wanted.timezone,
        "prepaid": wanted.prepaid,
        "alert_url": wanted.alert_url,
    }
    return own | _ceilings(wanted.limits, wanted.budget)


def _project(wanted: ProjectWanted) -> dict:
    return {
        "devices.guaranteed": wanted.devices.guaranteed or None,
        "devices.maximum": wanted.devices.maximum,
        **_ceilings(wanted.limits, wanted.budget),
    }


def _key(wanted: KeyWanted) -> dict:
    own = {
        "project": wanted.project,
        "routes": "every route" if wanted.routes is None else list(wanted.routes),
        "endpoints": "every endpoint" if wanted.endpoints is None else list(wanted.endpoints),
        "networks": list(wanted.networks) or "anywhere",
        "priority": wanted.priority and str(wanted.priority),
        "expires_at": wanted.expires_at,
    }
    return own | _ceilings(wanted.limits, wanted.budget)


def _ceilings(limits: Limits, budget: BudgetWanted | None) -> dict:
    named = {f"limits.{name}": value for name, value in asdict(limits).items()}
    return named | {"budget": str(budget) if budget else None}


def _version(wanted: VersionWanted) -> dict:
    parts = wanted.content
    return {
        **{f"engine.{name}": value for name, value in parts["engine"].items()},
        "source": parts["source"],
        **{f"arguments.{name}": value for name, value in parts["arguments"].items()},
        "memory": parts["memory"],
        "unsafe": parts.get("unsafe"),
    }


def _deployment(wanted: DeploymentWanted) -> dict:
    return {
        "model": wanted.model,
        "version": wanted.version,
        "replicas.min": wanted.replicas_min,
        "replicas.max": wanted.replicas_max,
        "node": wanted.node,
        "bucket": wanted.bucket and _named(wanted.bucket),
        **placing.flat(wanted),
        "recycle": recycle.stored(wanted.recycle),
        "allow_shorter_context": wanted.allow_shorter_context or None,
    }


def _route(wanted: RouteWanted) -> dict:
    plain = {name: value for name, value in vars(wanted).items() if name not in _APART}
    return {
        "targets": _weights(wanted.targets),
        **{f"rules[{number}]": _rule(rule) for number, rule in enumerate(wanted.rules)},
        **{name: list(it) if isinstance(it, tuple) else it for name, it in plain.items()},
        "bucket": wanted.bucket and _named(wanted.bucket),
        "moderation": wanted.moderation and _named(wanted.moderation),
    }


_APART = ("name", "targets", "rules", "bucket", "moderation")


def _rule(rule: RuleWanted) -> dict:
    return {name: value for name, value in vars(rule).items() if value not in (None, ())} | {
        "targets": _weights(rule.targets)
    }


def _weights(targets: tuple[TargetWanted, ...]) -> dict[str, int]:
    return {target.deployment: target.weight for target in targets}


def _named(part: Bucket | ModerationWanted) -> dict:
    return {name: value for name, value in vars(part).items() if value is not None}


def _price(wanted: PriceWanted) -> dict:
    """When it began and why it is cheap are of its saving: they make no other price of it."""
    return {name: value for name, value in wanted.flat.items() if name not in _OF_SAVING}


_OF_SAVING = ("valid_from", "below_cost_reason")


def _cost_rate(wanted: CostRateWanted) -> dict:
    """Numbers as they are written; what is not named is left out."""
    named = {name: value for name, value in asdict(wanted).items() if name != "device"}
    return {name: _number(value) for name, value in named.items()}


def _cost_pool(wanted: CostPoolWanted) -> dict:
    return {"idle": str(wanted.idle), "practical_use": _number(wanted.practical_ratio)}


def _token_weights(wanted: TokenWeightsWanted) -> dict:
    return {name: _number(getattr(wanted, name)) for name in ("cached_input", "output")}


def _number(value: object) -> object:
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


def _variant(wanted: VariantWanted) -> dict:
    return {"kind": wanted.kind}


def _terms(wanted: TermsWanted) -> dict:
    return wanted.stored


def _schedule(wanted: ScheduleWanted) -> dict:
    """Other files than those of FOCUS have no version."""
    told = {name: value or None for name, value in vars(wanted).items() if name != "name"}
    return told | {
        "version": wanted.version if wanted.what == FOCUS else None,
        "destination": wanted.destination.rstrip("/"),
    }


FLAT = {
    TenantWanted: _tenant,
    ProjectWanted: _project,
    KeyWanted: _key,
    VersionWanted: _version,
    DeploymentWanted: _deployment,
    RouteWanted: _route,
    PriceWanted: _price,
    CostRateWanted: _cost_rate,
    CostPoolWanted: _cost_pool,
    TokenWeightsWanted: _token_weights,
    VariantWanted: _variant,
    TermsWanted: _terms,
    ScheduleWanted: _schedule,
}
