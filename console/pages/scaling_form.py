"""How a deployment grows and shrinks, as a form: its members, and a row for each schedule."""

from django import forms

from control.fleet.facts import DeploymentFacts
from control.fleet.scaling import SCHEDULES_MAX, SLEEP_LEVEL, Policy, Scaling, Schedule

BLANK_ROWS = 2
ROW = "form-control form-control-sm"
POLICIES = {
    Policy.LOAD: "load: slots, cache, tokens",
    Policy.GPU: "GPU utilisation (one call: near 100 %)",
}
SLEEPS = [(0, "is stopped"), (SLEEP_LEVEL, "sleeps, weights in the host's RAM (cards only)")]


def _number(label: str) -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"class": "form-control"})
    return forms.IntegerField(label=label, widget=widget)


def _cell(placeholder: str, hint: str) -> forms.CharField:
    attrs = {"class": ROW, "placeholder": placeholder, "aria-label": hint}
    return forms.CharField(max_length=64, required=False, widget=forms.TextInput(attrs=attrs))


class ScalingForm(forms.Form):
    policy = forms.ChoiceField(
        label="Policy",
        choices=[(str(one), POLICIES[one]) for one in Policy],
        widget=forms.Select(attrs={"class": "form-select"}),
    )
    queue_calls = _number("Grows above")
    grow_seconds = _number("Grows after (s)")
    shrink_seconds = _number("Shrinks after (s)")
    zero_seconds = _number("To none after (s)")
    sleep = forms.TypedChoiceField(
        label="The last replica",
        choices=SLEEPS,
        coerce=int,
        widget=forms.Select(attrs={"class": "form-select"}),
    )


class ScheduleForm(forms.Form):
    replicas = forms.IntegerField(
        required=False,
        widget=forms.NumberInput(attrs={"class": ROW, "min": 1, "aria-label": "At least"}),
    )
    days = _cell(Schedule.days, "Days")
    begins = _cell(Schedule.begins, "From")
    ends = _cell(Schedule.ends, "To")
    timezone = _cell(Schedule.timezone, "Time zone")

    def named(self) -> Schedule | None:
        """None of a row that names no number: a schedule is taken away by emptying it."""
        given = {name: it for name, it in self.cleaned_data.items() if it not in ("", None)}
        return Schedule(**given) if "replicas" in given else None


Schedules = forms.formset_factory(ScheduleForm, extra=BLANK_ROWS, max_num=SCHEDULES_MAX)


def forms_of(deployment: DeploymentFacts) -> dict:
    """As it is stored, for the page."""
    scaling = deployment.scaling
    rows = [vars(schedule) for schedule in scaling.schedules]
    return {
        "scaling": ScalingForm(initial=vars(scaling)),
        "schedules": Schedules(initial=rows, prefix="schedules"),
    }


def wanted(form: ScalingForm, rows) -> Scaling:
    """Both are valid."""
    schedules = tuple(found for row in rows if (found := row.named()))
    return Scaling(**form.cleaned_data, schedules=schedules)
