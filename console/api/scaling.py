"""How a deployment grows and shrinks, over REST: what may be sent."""

from rest_framework import serializers

from console.api.base import Form
from control.fleet.scaling import SCHEDULES_MAX, Policy, Scaling, Schedule

PLAIN = Scaling()


class ScheduleForm(Form):
    days = serializers.CharField(
        default=Schedule.days, help_text="weekdays, weekends, daily, or names with commas: mon,wed"
    )
    begins = serializers.CharField(default=Schedule.begins)
    ends = serializers.CharField(default=Schedule.ends)
    replicas = serializers.IntegerField(help_text="At least so many")
    timezone = serializers.CharField(default=Schedule.timezone)


class ScalingForm(Form):
    """Whole: what is left out has its default."""

    policy = serializers.ChoiceField([str(one) for one in Policy], default=str(PLAIN.policy))
    queue_calls = serializers.IntegerField(default=PLAIN.queue_calls)
    grow_seconds = serializers.IntegerField(default=PLAIN.grow_seconds)
    shrink_seconds = serializers.IntegerField(default=PLAIN.shrink_seconds)
    zero_seconds = serializers.IntegerField(default=PLAIN.zero_seconds)
    schedules = ScheduleForm(many=True, required=False, max_length=SCHEDULES_MAX)
    sleep = serializers.IntegerField(
        default=PLAIN.sleep, help_text="1: the last replica sleeps instead of being stopped; 0: no"
    )


def scaling(body: dict) -> Scaling:
    schedules = tuple(Schedule(**each) for each in body.pop("schedules", ()))
    return Scaling(**body, schedules=schedules)
