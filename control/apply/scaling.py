"""How a deployment of a service.yaml grows and shrinks: members and defaults."""

from control.apply.document import Scalar
from control.apply.fields import Fields
from control.fleet.scaling import Scaling, Schedule

OFF = "off"


def scaling(fields: Fields) -> Scaling:
    default, inner = Scaling(), fields.mapping("scaling")
    wanted = Scaling(
        policy=inner.text("policy", default.policy),
        queue_calls=inner.whole("queue_calls", default.queue_calls),
        grow_seconds=inner.whole("grow_seconds", default.grow_seconds),
        shrink_seconds=inner.whole("shrink_seconds", default.shrink_seconds),
        zero_seconds=inner.whole("zero_seconds", default.zero_seconds),
        schedules=tuple(_schedule(each) for each in inner.items("schedules")),
        sleep=_sleep(inner),
    )
    inner.end()
    return wanted


def _schedule(fields: Fields) -> Schedule:
    schedule = Schedule(
        replicas=fields.whole("min", 1),
        days=fields.text("days", Schedule.days),
        begins=fields.text("from", Schedule.begins),
        ends=fields.text("to", Schedule.ends),
        timezone=fields.text("timezone", Schedule.timezone),
    )
    fields.end()
    return schedule


def _sleep(inner: Fields) -> int:
    """A level, or off; which YAML takes for a truth value, or for a text in quotes."""
    node = inner.members.get("sleep")
    if isinstance(node, Scalar) and node.kind == "true or false":
        return int(inner.flag("sleep"))
    if isinstance(node, Scalar) and node.text == OFF:
        inner.text("sleep")
        return 0
    return inner.whole("sleep", 0)
