"""What a service.yaml says of a deployment's size: read, refused, stored, read back."""

import pytest

from control.apply.wanted import BadFile
from control.fleet.scaling import Scaling, Schedule, scaling_of
from control.models import Deployment
from tests.apply.documents import parse
from tests.apply.test_placing import BASE, do

SIZED = """    replicas: {min: 0, max: 6}
    scaling:
      policy: gpu_utilisation
      queue_calls: 4
      zero_seconds: 60
      schedules:
        - {days: weekdays, from: "09:00", to: "19:00", min: 4, timezone: Europe/Berlin}
        - {min: 1}
"""
WANTED = Scaling(
    policy="gpu_utilisation",
    queue_calls=4,
    zero_seconds=60,
    schedules=(
        Schedule(4, "weekdays", "09:00", "19:00", "Europe/Berlin"),
        Schedule(1, "daily", "00:00", "24:00", "UTC"),
    ),
)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{policy: mood}", "scaling.policy: 'mood' is not one of load, gpu_utilisation"),
        ("{queue_calls: 0}", "scaling.queue_calls: 0 is not between 1 and 1000"),
        ("{grow_seconds: 1}", "scaling.grow_seconds: 1 is not between 10"),
        ("{speed: 1}", "scaling.speed: is not understood"),
        ("{schedules: [{days: noday}]}", "schedules[0].days: 'noday' is none of weekdays"),
        ('{schedules: [{from: "9"}]}', "schedules[0].from: '9' is no time of day: write 09:00"),
        ('{schedules: [{to: "25:00"}]}', "schedules[0].to: '25:00' is no time of day"),
        ('{schedules: [{from: "09:00", to: "09:00"}]}', "schedules[0].to: is when it begins"),
        ("{schedules: [{timezone: Mars}]}", "schedules[0].timezone: 'Mars' is no time zone"),
        ("{sleep: 2}", "scaling.sleep: level 2 throws weights away"),
        ("{sleep: 7}", "scaling.sleep: is 1 (weights in the host's RAM) or off, not 7"),
        ("{sleep: deep}", "scaling.sleep: is a text, not a whole number"),
        ("{schedules: [{min: 9}]}", "schedules[0].min: 9 is not between 1 and 1"),
    ],
)
def test_what_is_odd_is_told(given, said):
    with pytest.raises(BadFile) as bad:
        parse(f"{BASE}    scaling: {given}\n")
    assert said in str(bad.value)


@pytest.mark.parametrize(
    ("written", "level"), [("1", 1), ("off", 0), ('"off"', 0), ("false", 0), ("0", 0)]
)
def test_sleep_is_a_level_or_off(written, level):
    [deployment] = parse(f"{BASE}    scaling: {{sleep: {written}}}\n").deployments
    assert deployment.scaling.sleep == level


@pytest.mark.django_db
def test_sleep_is_refused_where_nothing_could_sleep():
    asks = BASE + "    replicas: {min: 0, max: 1}\n    scaling: {sleep: 1}\n"
    assert do(asks, carry_out=False).plan.changes
    with pytest.raises(BadFile, match=r"13: deployments\[0\].scaling.sleep: .* set that to 0"):
        do(asks.replace("min: 0", "min: 1"), carry_out=False)


@pytest.mark.django_db
def test_it_is_stored_and_read_back_and_applying_it_again_changes_nothing():
    assert do(BASE + SIZED).done
    assert scaling_of(Deployment.objects.get().scaling) == WANTED
    assert not do(BASE + SIZED, carry_out=False).plan.changes
