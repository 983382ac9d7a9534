"""External engines: probed over real HTTP, moved after two good or three bad ones."""

import json
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from control.models import Replica
from control.reconcile import loop
from control.reconcile.probes import Probes
from control.reconcile.streaks import Streak, after_probe
from control.states import ReplicaState
from tests.fleet.rows import a_deployment, a_version

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Outside(BaseHTTPRequestHandler):
    def do_GET(self):
        status, names = self.server.answers.get(self.path, (404, []))
        body = json.dumps({"data": [{"id": name} for name in names]}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def outside():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Outside)
    server.answers = {"/health": (200, []), "/v1/models": (200, ["m"])}
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def replica(db, outside):
    url = f"http://127.0.0.1:{outside.server_port}/v1"
    engine = {"kind": "external", "url": url, "served_name": "m"}
    a_deployment(version=a_version(engine=engine))
    loop.tick(AT)
    return Replica.objects.get()


@pytest.fixture
def probes():
    made = Probes()
    yield made
    made.stop()


def after(probes, replica, rounds):
    for _ in range(rounds):
        probes.round(AT)
    replica.refresh_from_db()
    return replica.state


def test_two_good_probes_make_ready_three_bad_ones_unhealthy(probes, replica, outside):
    assert after(probes, replica, 1) == "starting"
    assert after(probes, replica, 1) == "ready"
    outside.answers["/health"] = (503, [])
    assert after(probes, replica, 2) == "ready"
    assert after(probes, replica, 1) == "unhealthy"
    outside.answers["/health"] = (200, [])
    assert after(probes, replica, 2) == "ready"


def test_without_a_health_page_its_models_count(probes, replica, outside):
    del outside.answers["/health"]
    assert after(probes, replica, 2) == "ready"


def test_t08_another_model_on_that_port_is_not_the_one_we_mean(probes, replica, outside):
    outside.answers["/v1/models"] = (200, ["other"])
    assert after(probes, replica, 3) == "starting"
    assert replica.reason == "serves other, not m"


@pytest.mark.parametrize(
    ("state", "streak", "to"),
    [
        ("starting", Streak(good=1), None),
        ("starting", Streak(good=2), ReplicaState.READY),
        ("starting", Streak(bad=9), None),
        ("ready", Streak(bad=2), None),
        ("ready", Streak(bad=3), ReplicaState.UNHEALTHY),
        ("unhealthy", Streak(good=2), ReplicaState.READY),
        ("draining", Streak(good=2), None),
    ],
)
def test_where_a_streak_leads(state, streak, to):
    assert after_probe(ReplicaState(state), streak) is to
