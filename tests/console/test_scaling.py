"""How a deployment grows and shrinks, changed on its page and over REST."""

import pytest
from rest_framework.test import APIClient

from control.fleet.scaling import Scaling, Schedule, scaling_of
from control.models import AuditEntry, Deployment

PLAIN = {
    "policy": "load",
    "queue_calls": "8",
    "grow_seconds": "300",
    "shrink_seconds": "1800",
    "zero_seconds": "600",
    "sleep": "0",
}
DAY = Schedule(4, "weekdays", "09:00", "19:00", "Europe/Berlin")


def rows(*schedules: dict) -> dict:
    form = {"schedules-TOTAL_FORMS": str(len(schedules)), "schedules-INITIAL_FORMS": "0"}
    for number, schedule in enumerate(schedules):
        form |= {f"schedules-{number}-{name}": value for name, value in schedule.items()}
    return form


@pytest.fixture
def stored(fleet):
    fleet(1)
    Deployment.objects.update(replicas_min=1, replicas_max=6)
    return lambda: scaling_of(Deployment.objects.get().scaling)


def test_its_form_saves_all_of_it_and_says_who_did(console, stored):
    given = PLAIN | {"policy": "gpu_utilisation", "zero_seconds": "60"}
    day = vars(DAY) | {"replicas": "4"}
    console.post("/deployments/dep-1/scaling/", given | rows(day, {"days": "daily"}))
    assert stored() == Scaling("gpu_utilisation", zero_seconds=60, schedules=(DAY,))
    entry = AuditEntry.objects.get(subject="dep-1")
    assert (entry.action, entry.by) == ("change scaling", "ann")
    shown = console.get("/deployments/dep-1/").content.decode()
    assert 'name="schedules-0-days" value="weekdays"' in shown
    assert 'value="Europe/Berlin"' in shown
    console.post("/deployments/dep-1/scaling/", PLAIN | rows(day | {"replicas": ""}))
    assert stored() == Scaling()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"grow_seconds": "1"}, "scaling.grow_seconds: 1 is not between 10"),
        ({"sleep": "1"}, "replicas.min keeps it: set that to 0"),
        (rows(vars(DAY) | {"replicas": "7"}), "schedules[0].min: 7 is not between 1 and 6"),
        (rows(vars(DAY) | {"begins": "9"}), "is no time of day: write 09:00"),
        ({"queue_calls": "x"}, "Enter a whole number."),
    ],
)
def test_what_apply_would_refuse_its_form_refuses_and_keeps_what_was_written(
    console, stored, given, said
):
    shown = console.post("/deployments/dep-1/scaling/", PLAIN | rows() | given).content.decode()
    assert said in shown.replace("&#x27;", "'")
    assert f'value="{given.get("grow_seconds", "300")}"' in shown
    assert stored() == Scaling()
    assert not AuditEntry.objects.filter(subject="dep-1").exists()


def test_bounds_are_not_moved_away_from_under_a_schedule(console, stored):
    day = vars(DAY) | {"replicas": "4"}
    console.post("/deployments/dep-1/scaling/", PLAIN | rows(day))
    few = {"replicas_min": 1, "replicas_max": 3}
    shown = console.post("/deployments/dep-1/scale/", few, follow=True).content.decode()
    assert "schedules[0].min: 4 is not between 1 and 3" in shown
    assert Deployment.objects.get().replicas_max == 6


def test_the_api_changes_and_refuses_the_same(operator, stored):
    api = APIClient()
    api.force_authenticate(operator)
    url = "/api/deployments/dep-1/scaling/"
    body = {"queue_calls": 4, "schedules": [{"replicas": 2}]}
    changed = api.post(url, body, format="json").json()["scaling"]
    assert (changed["queue_calls"], changed["schedules"][0]["days"]) == (4, "daily")
    assert api.post(url, changed, format="json").json()["scaling"] == changed
    for odd in ({"speed": 1}, {"zero_seconds": 1}, {"schedules": [{"replicas": 9}]}):
        assert api.post(url, odd, format="json").status_code == 400
    daily = Schedule(2, "daily", "00:00", "24:00", "UTC")
    assert stored() == Scaling(queue_calls=4, schedules=(daily,))
