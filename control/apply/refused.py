"""What carrying a plan out would refuse, told with the plan: prices below what tokens cost."""

from datetime import datetime

from control.apply.plan import Plan, Step
from control.apply.wanted import Misfit, Service, misfits
from control.checks import Problem, Refused
from control.metering.prices.judging import judge

TOLD_MAX = 50  # prices of one plan


def at_place(step: Step, service: Service, refused: Refused) -> list[Misfit]:
    """What a room refuses of a step, with the line it comes from."""
    path = service.paths.get(step.subject, "")
    problems = [Problem(path, f"{step.subject}: {it}") for it in refused.problems]
    return misfits(service.lines, problems)


def told(plan: Plan, service: Service, at: datetime) -> tuple[Misfit, ...]:
    """As things are now, in the order of the file."""
    found: list[Misfit] = []
    for step in [step for step in plan.changes if step.kind == "price"][:TOLD_MAX]:
        try:
            judge(step.wanted, at)
        except Refused as refused:
            found += at_place(step, service, refused)
    return tuple(sorted(found, key=lambda misfit: misfit.line))
