"""`weir status` says what runs, in a form for scripts, and its exit code says it short."""

import io
import json
import os

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from control.management.commands.status import (
    FAILED,
    READY,
    STARTING,
    GatewayStanding,
    verdict,
)
from control.management.local.home import Home, Running
from control.telemetry.messages import GatewaySample
from control.telemetry.store import Store

URL = "http://127.0.0.1:7801"
UP = GatewayStanding(URL, answers=True, ready=True)
WAITING = GatewayStanding(URL, answers=True, ready=False)
DOWN = GatewayStanding(URL, answers=False, ready=False)


def status(ready_replicas: int | None, state: str = "ready") -> dict:
    routes = [] if ready_replicas is None else [{"name": "r", "ready_replicas": ready_replicas}]
    return {"routes": routes, "deployments": [{"name": "d", "state": state}]}


@pytest.mark.parametrize(
    ("seen", "gateway", "code"),
    [
        (status(1), UP, READY),
        (status(1), WAITING, STARTING),  # it hears of the replica in a moment
        (status(1), DOWN, FAILED),
        (status(0, "loading"), WAITING, STARTING),
        (status(0, "pending"), WAITING, STARTING),
        (status(0, "failed"), WAITING, FAILED),
        (status(0, "lost"), WAITING, FAILED),
        (status(1, "draining"), UP, READY),  # what routes lead to serves
        (status(None), WAITING, STARTING),  # nothing is applied yet
    ],
)
def test_the_exit_code_says_it_short(seen, gateway, code):
    assert verdict(seen, gateway) == code


def test_while_weir_starts_what_is_missing_is_on_its_way(settings, tmp_path):
    settings.WEIR_HOME, settings.WEIR_DATABASE_URL = tmp_path, "postgresql://weir@127.0.0.1:1/weir"
    Home(tmp_path).tell(Running(pid=os.getpid(), stage="starting"))
    text, code = said("--json")
    assert code == STARTING
    assert json.loads(text) | {"routes": [], "nodes": [], "spool_events": None} == json.loads(text)
    assert verdict(status(1), DOWN, starts=True) == STARTING
    Home(tmp_path).tell(Running(pid=os.getpid(), stage="failed"))
    with pytest.raises(CommandError):
        call_command("status")


def said(*arguments: str) -> tuple[str, int]:
    out = io.StringIO()
    with pytest.raises(SystemExit) as end:
        call_command("status", *arguments, stdout=out)
    return out.getvalue(), end.value.code


@pytest.fixture(autouse=True)
def no_gateway(settings):
    settings.WEIR_GATEWAY_URL = "http://127.0.0.1:9"


def test_scripts_get_one_object_with_everything(fleet):
    fleet(1)
    Store().put(
        [
            GatewaySample(
                timezone.now().timestamp(), "a", snapshot_age_seconds=1.5, spool_events=2
            ),
            GatewaySample(
                timezone.now().timestamp(), "b", snapshot_age_seconds=0.5, spool_events=1
            ),
        ]
    )
    text, code = said("--json")
    assert code == FAILED
    assert json.loads(text) == {
        "version": "0.1.0",
        "gateway": {"url": "http://127.0.0.1:9", "ready": False},
        "tenants": [{"name": "tenant-1"}],
        "routes": [{"name": "route-1", "ready_replicas": 1}],
        "deployments": [
            {
                "name": "dep-1",
                "wanted": 2,
                "ready": 1,
                "state": "degraded",
                "reason": "has weights",
            }
        ],
        "nodes": [{"name": "node-1", "state": "ready"}],
        "troubles": [],
        "snapshot_age_seconds": 1.5,
        "spool_events": 3,
    }


def test_people_get_lines_and_what_to_do(db):
    text, _ = said()
    assert "not ready" in text
    assert "weir apply" in text
