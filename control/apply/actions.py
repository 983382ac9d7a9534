"""service.yaml → plan → carried out, in one transaction, by the rooms' own actions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.conf import settings
from django.db import OperationalError, connection, transaction

from control.apply import facts, places, refused, rules
from control.apply.parse import read
from control.apply.plan import Plan, Step, Stored, Verb
from control.apply.secrets import with_secrets
from control.apply.wanted import BadFile, KeyEntry, Misfit, Service, misfits
from control.catalog import actions as catalog
from control.catalog.advice import actions as advice
from control.checks import Refused
from control.fleet import actions as fleet
from control.metering.cost import actions as costs
from control.metering.exports import schedules
from control.metering.invoices.terms import save_terms
from control.metering.prices import actions as prices
from control.models.sealing import digest_of
from control.routes import actions as routes
from control.tenancy import actions as tenancy

LOCK = 0x6170706C  # "appl": one at a time, for a plan holds only for what it was made from


@dataclass(frozen=True)
class Applied:
    """The plan, whether it was carried out, and secrets that were made: shown once, now.

    Of one that was not: what of it would be refused.
    """

    plan: Plan
    done: bool = False
    warnings: tuple[Misfit, ...] = ()
    secrets: dict[str, str] = field(default_factory=dict, repr=False)


def apply(
    text: str,
    *,
    environment: Mapping[str, str],
    prune: bool = False,
    carry_out: bool = False,
    by: str,
    reason: str,
    at: datetime,
) -> Applied:
    """Plan the file, and with `carry_out` do it: all of it, or BadFile and nothing."""
    service, odd = read(text, stub_allowed=settings.WEIR_ALLOW_STUB)
    service, secrets, missing = with_secrets(service, environment)
    digests = {name: digest_of(secret) for name, secret in secrets.items()}
    known = (*odd, *missing)
    try:
        with transaction.atomic():
            _lock()
            stored = facts.load(digests.values(), at=at)
            plan = rules.plan(service, stored, digests, known, pruning=prune)
            if plan.problems:
                raise BadFile(misfits(service.lines, plan.problems))
            if not carry_out:
                warnings = refused.told(plan, service, at)
                return Applied(places.told(plan, at), warnings=warnings)
            task = _Task(stored, secrets, {"by": by, "reason": reason, "at": at})
            for step in plan.changes:
                _carry_out(step, task, service)
    except OperationalError:
        if known:  # a bad file is told so even without a database
            raise BadFile(misfits(service.lines, known)) from None
        raise
    return Applied(plan, done=True, secrets=task.made)


def _lock() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])


@dataclass
class _Task:
    """What the steps of one apply share."""

    stored: Stored
    secrets: dict[str, str]
    who: dict
    made: dict[str, str] = field(default_factory=dict)


def _carry_out(step: Step, task: _Task, service: Service) -> None:
    """One step; what a room refuses after all is told with the line it comes from."""
    removing = step.verb in (Verb.DRAIN, Verb.ARCHIVE, Verb.REVOKE, Verb.REMOVE)
    act = _REMOVE[step.kind, step.verb] if removing else _SAVE[step.kind]
    try:
        act(step, task)
    except Refused as refusal:
        raise BadFile(refused.at_place(step, service, refusal)) from None


def _save_key(step: Step, task: _Task) -> None:
    entry: KeyEntry = step.wanted
    wanted = entry.wanted
    secret = task.secrets.get(entry.secret_env or "")
    if step.verb is Verb.CREATE:
        named = {"tenant": wanted.tenant, "name": wanted.name, "project": wanted.project}
        made = tenancy.create_key(**named, secret=secret, **task.who)
        if secret is None:
            task.made[step.name] = made.secret
    if step.verb is Verb.ROTATE:
        tenancy.rotate_key(wanted.tenant, wanted.name, secret, **task.who)
    tenancy.change_key(wanted, **task.who)


def _save_version(step: Step, task: _Task) -> None:
    entry = step.wanted
    catalog.save_version(entry.model, entry.name, entry.content, **task.who)


def _wanted(save: Callable) -> Callable:
    return lambda step, task: save(step.wanted, **task.who)


def _named(act: Callable) -> Callable:
    """Actions on what has a name of one part, or of two: tenant/project, model:version."""
    return lambda step, task: act(*step.name.replace(":", "/").split("/"), **task.who)


def _one_name(act: Callable) -> Callable:
    return lambda step, task: act(step.name, **task.who)


def _revoke(step: Step, task: _Task) -> None:
    tenancy.revoke_key(task.stored.get("key", step.name).ident, **task.who)


_SAVE: dict[str, Callable] = {
    "tenant": _wanted(tenancy.save_tenant),
    "project": _wanted(tenancy.save_project),
    "key": _save_key,
    "model": _one_name(catalog.save_model),
    "version": _save_version,
    "deployment": _wanted(fleet.save_deployment),
    "route": _wanted(routes.save_route),
    "price": _wanted(prices.save_price),
    "cost_rate": _wanted(costs.save_cost_rate),
    "cost_pool": _wanted(costs.save_cost_pool),
    "token_weight": _wanted(costs.save_token_weights),
    "variant": _wanted(advice.save_variant),
    "billing": _wanted(save_terms),
    "export": _wanted(schedules.save_schedule),
}
_REMOVE: dict[tuple[str, Verb], Callable] = {
    ("route", Verb.ARCHIVE): _one_name(routes.archive_route),
    ("deployment", Verb.DRAIN): _one_name(fleet.drain_deployment),
    ("deployment", Verb.ARCHIVE): _one_name(fleet.archive_deployment),
    ("key", Verb.REVOKE): _revoke,
    ("export", Verb.REMOVE): _one_name(schedules.remove_schedule),
    ("version", Verb.ARCHIVE): _named(catalog.archive_version),
    ("model", Verb.ARCHIVE): _one_name(catalog.archive_model),
    ("project", Verb.ARCHIVE): _named(tenancy.archive_project),
    ("tenant", Verb.ARCHIVE): _one_name(tenancy.archive_tenant),
}
