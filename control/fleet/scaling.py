"""How a deployment is to grow and shrink: what an operator may ask. Pure."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo, available_timezones

from control import checks
from control.checks import Problem

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
NAMED_DAYS = {"weekdays": DAYS[:5], "weekends": DAYS[5:], "daily": DAYS}
SCHEDULES_MAX = 16
SECONDS_MAX = 7 * 24 * 3600
QUEUE_MAX = 1000
SLEEP_LEVEL = 1  # weights go to the host's RAM, the KV cache is dropped
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d|24:00")


class Policy(StrEnum):
    """What says that a deployment has too much or too little to do."""

    LOAD = "load"  # its engines' slots, cache and tokens, and calls that wait
    GPU = "gpu_utilisation"  # near 100 % with one call that decodes: only where all else is equal


@dataclass(frozen=True)
class Schedule:
    """At least so many replicas on some days between two times of day."""

    replicas: int
    days: str = "daily"  # or weekdays, weekends, or names with commas: mon,wed
    begins: str = "00:00"
    ends: str = "24:00"
    timezone: str = "UTC"

    def names(self) -> tuple[str, ...]:
        return NAMED_DAYS.get(self.days, tuple(self.days.split(",")))

    def holds(self, at: datetime) -> bool:
        """A schedule that ends before it begins goes over midnight, by the day it began on."""
        local = at.astimezone(ZoneInfo(self.timezone))
        clock, today = f"{local:%H:%M}", DAYS[local.weekday()]
        if self.begins < self.ends:
            return today in self.names() and self.begins <= clock < self.ends
        yesterday = DAYS[local.weekday() - 1]
        late = today in self.names() and clock >= self.begins
        return late or (yesterday in self.names() and clock < self.ends)


@dataclass(frozen=True)
class Scaling:
    policy: str = Policy.LOAD
    queue_calls: int = 8  # that wait for each replica
    grow_seconds: int = 300  # of too much to do
    shrink_seconds: int = 1800  # of too little
    zero_seconds: int = 600  # without a call, before the last replica goes; if min is 0
    schedules: tuple[Schedule, ...] = field(default=())
    sleep: int = 0  # level at which the last replica sleeps instead of being stopped; 0 is off

    def least(self, replicas_min: int, at: datetime) -> int:
        return max([replicas_min, *(s.replicas for s in self.schedules if s.holds(at))])


def problems(path: str, wanted: Scaling, replicas_max: int) -> list[Problem]:
    found = [
        *checks.one_of(f"{path}.policy", wanted.policy, Policy),
        *checks.whole(f"{path}.queue_calls", wanted.queue_calls, 1, QUEUE_MAX),
        *checks.whole(f"{path}.grow_seconds", wanted.grow_seconds, 10, SECONDS_MAX),
        *checks.whole(f"{path}.shrink_seconds", wanted.shrink_seconds, 10, SECONDS_MAX),
        *checks.whole(f"{path}.zero_seconds", wanted.zero_seconds, 10, SECONDS_MAX),
    ]
    found += sleep_problems(f"{path}.sleep", wanted.sleep)
    if len(wanted.schedules) > SCHEDULES_MAX:
        found.append(Problem(f"{path}.schedules", f"has more than {SCHEDULES_MAX} entries"))
    for number, schedule in enumerate(wanted.schedules[:SCHEDULES_MAX]):
        found += _schedule_problems(f"{path}.schedules[{number}]", schedule, replicas_max)
    return found


def sleep_problems(path: str, level: object) -> list[Problem]:
    if level in (0, SLEEP_LEVEL):
        return []
    if level == 2:
        what = "level 2 throws weights away, and how an engine gets them back is not proven: use 1"
        return [Problem(path, what)]
    return [Problem(path, f"is {SLEEP_LEVEL} (weights in the host's RAM) or off, not {level!r}")]


def stored(wanted: Scaling) -> dict:
    """What differs from the defaults, as JSON has it."""
    default, values = asdict(Scaling()), asdict(wanted)
    values["schedules"] = [dict(schedule) for schedule in values["schedules"]] or ()
    return {name: value for name, value in values.items() if value != default[name]}


def scaling_of(stored: Mapping) -> Scaling:
    values = dict(stored)
    values["schedules"] = tuple(Schedule(**each) for each in values.get("schedules", ()))
    return Scaling(**values)


def _schedule_problems(path: str, schedule: Schedule, replicas_max: int) -> list[Problem]:
    found = [*checks.whole(f"{path}.min", schedule.replicas, 1, replicas_max)]
    if not schedule.names() or set(schedule.names()) - set(DAYS):
        known = ", ".join((*NAMED_DAYS, *DAYS))
        found.append(Problem(f"{path}.days", f"{schedule.days!r} is none of {known}"))
    for name, text in (("from", schedule.begins), ("to", schedule.ends)):
        if not _TIME.fullmatch(text):
            found.append(Problem(f"{path}.{name}", f"{text!r} is no time of day: write 09:00"))
    if schedule.begins == schedule.ends:
        found.append(Problem(f"{path}.to", "is when it begins: for the whole day write 24:00"))
    if schedule.timezone not in available_timezones():
        found.append(Problem(f"{path}.timezone", f"{schedule.timezone!r} is no time zone"))
    return found
