"""An alert reaches its URL: signed, retried so often, never twice after a crash."""

import base64
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from control.metering.alerts import actions, facts, rules, sending
from control.models import Budget, BudgetAlert, Tenant
from tests.metering.conftest import AT
from tests.metering.prepaid.test_actions import spend


class Hook(BaseHTTPRequestHandler):
    """What a tenant runs."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.seen.append((dict(self.headers), body))
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        self.send_response(status)
        if status == 302:
            self.send_header("location", self.server.url)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Quiet."""


@pytest.fixture
def hook() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.seen, server.statuses = [], []
    server.url = f"http://127.0.0.1:{server.server_port}/hooks"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def an_alert(house, url: str, spent: int = 6 * 10**11) -> BudgetAlert:
    Tenant.objects.update(alert_url=url)
    Budget.objects.create(tenant=house.tenant, amount="1.00", currency="USD")
    actions.watch(AT)
    spend(house, spent)
    actions.watch(AT)
    return BudgetAlert.objects.latest("pk")


def test_an_alert_arrives_once_and_signed(house, hook):
    alert = an_alert(house, hook.url)
    assert sending.send(AT) == 1
    assert sending.send(AT + timedelta(days=1)) == 0
    [(headers, body)] = hook.seen
    assert json.loads(body)["data"]["percent"] == 50
    secret = base64.b64decode(facts.secret_text("acme").removeprefix("whsec_"))
    told = {name.lower(): value for name, value in headers.items()}
    signed = f"alert_{alert.pk}.{told['webhook-timestamp']}.".encode() + body
    mac = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert told["webhook-signature"] == f"v1,{mac}"
    alert.refresh_from_db()
    assert (alert.delivery, alert.tries, alert.answer) == ("delivered", 1, "")


def test_a_refused_alert_is_tried_again_under_the_same_id_and_then_given_up(house, hook):
    alert, at = an_alert(house, hook.url), AT
    hook.statuses += [500] * rules.TRIES_MAX
    for _ in range(rules.TRIES_MAX):
        assert sending.send(at) == 1
        alert.refresh_from_db()
        at = alert.try_at or at + timedelta(days=1)
    assert sending.send(at) == 0
    assert (alert.delivery, alert.tries, alert.answer) == ("failed", rules.TRIES_MAX, "status 500")
    ids = {headers.get("webhook-id") for headers, _ in hook.seen}
    assert ids == {f"alert_{alert.pk}"}
    assert len({body for _, body in hook.seen}) == 1


def test_a_redirect_is_no_answer_and_is_not_followed(house, hook):
    alert = an_alert(house, hook.url)
    hook.statuses += [302]
    sending.send(AT)
    alert.refresh_from_db()
    assert (alert.delivery, alert.answer, len(hook.seen)) == ("waiting", "status 302", 1)


def test_nobody_at_the_address_is_a_failed_try(house):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        alert = an_alert(house, f"http://127.0.0.1:{taken.getsockname()[1]}/")
        sending.send(AT)
    alert.refresh_from_db()
    assert alert.delivery == "waiting"
    assert "Connect" in alert.answer


def test_a_host_that_says_nothing_has_a_time_limit(house, monkeypatch):
    monkeypatch.setattr(sending, "SECONDS_MAX", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        alert = an_alert(house, f"http://127.0.0.1:{silent.getsockname()[1]}/")
        sending.send(AT)
    alert.refresh_from_db()
    assert alert.delivery == "waiting"
    assert alert.tries == 1


def test_a_sender_that_was_killed_meanwhile_sends_nothing_twice(house, hook, monkeypatch):
    alert = an_alert(house, hook.url)

    class Killed(BaseException):
        """kill -9, between the answer and its record."""

    def die(*_args: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(sending, "_settle", die)
        with pytest.raises(Killed):
            sending.send(AT)
    assert sending.send(AT + timedelta(seconds=5)) == 0
    assert sending.send(AT + sending.SENDER_IS_DEAD_AFTER) == 0
    alert.refresh_from_db()
    assert (alert.delivery, len(hook.seen)) == ("unknown", 1)


def test_two_senders_never_take_the_same_alert(house, hook):
    an_alert(house, hook.url, 10**12)
    first = sending._claim(AT)
    assert len(first) == 3
    assert sending._claim(AT) == []
