"""Drift over REST: judged hours, and incidents closed with a reason."""

import pytest
from django.utils import timezone

from control.models import AuditEntry
from tests.api.test_api import problems
from tests.console.test_drift import an_hour
from tests.fleet.rows import a_deployment, a_replica

pytestmark = pytest.mark.django_db


@pytest.fixture
def incident():
    replica = a_replica(a_deployment(), at=timezone.now())
    return an_hour(replica, unexplained_input_tokens=5000, is_incident=True)


def test_hours_are_listed_and_an_incident_is_closed(api, incident):  # noqa: F811
    [hour] = api.get("/api/drift/").json()["results"]
    assert hour["engine"] == {"input": 5200, "output": 0}
    assert (hour["unexplained"]["input"], hour["is_open"]) == (5000, True)
    close = f"/api/drift/{incident.pk}/close/"
    assert "reason" in problems(api.post(close, {}, format="json"))
    closed = api.post(close, {"reason": "a benchmark"}, format="json").json()
    assert (closed["is_open"], closed["closed_by"], closed["closed_reason"]) == (
        *(False, "ann"),
        "a benchmark",
    )
    assert AuditEntry.objects.filter(action="close drift incident", by="ann").exists()
    assert api.post("/api/drift/999/close/", {"reason": "x"}, format="json").status_code == 404


def test_only_so_many_hours_at_once(api, incident):  # noqa: F811
    assert api.get("/api/drift/?hours=1").json()["results"] == []
    assert "between 1 and 744" in problems(api.get("/api/drift/?hours=9999"))["hours"]
