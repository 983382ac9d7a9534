"""The places that a plan's deployments would get, written beside its steps."""

from dataclasses import replace
from datetime import datetime

from control.apply.plan import Plan, Step, Verb
from control.fleet.placing import Placing, put
from control.models import Deployment, Project, Version
from control.placement.fleet import Fleet
from control.placement.preview import preview, read_fleet

TOLD_MAX = 50  # of one plan


def told(plan: Plan, at: datetime) -> Plan:
    """As things are now: steps before one in the same plan are not counted in."""
    steps = [step for step in plan.steps if _is_placed(step)][:TOLD_MAX]
    if not steps:
        return plan
    fleet = read_fleet(at)
    notes = {step.subject: note for step in steps if (note := _note(step, fleet))}
    return replace(
        plan,
        steps=tuple(
            replace(step, note="; ".join(filter(None, (step.note, notes.get(step.subject)))))
            for step in plan.steps
        ),
    )


def _is_placed(step: Step) -> bool:
    return step.kind == "deployment" and step.verb in (Verb.CREATE, Verb.CHANGE, Verb.RESTORE)


def _note(step: Step, fleet: Fleet) -> str:
    """Nothing for a version that this very file makes: what it needs is not known yet."""
    wanted = step.wanted
    found = Version.objects.filter(model__name=wanted.model, name=wanted.version)
    version = found.select_related("model", "measure").first()
    if version is None or version.is_external:
        return ""
    stored = Deployment.objects.filter(name=wanted.name).first()
    row = stored or Deployment(name=wanted.name, pk=0)
    row.node = wanted.node
    placing = Placing(wanted.priority, "", wanted.placement, wanted.objective)
    put(row, placing, _project(wanted.project))
    return f"one launch more {preview(version, row, fleet).text}"


def _project(name: str) -> Project | None:
    """None also of one that this very file makes: it holds nothing yet."""
    tenant, _, project = name.partition("/")
    return Project.objects.filter(tenant__name=tenant, name=project).first()
