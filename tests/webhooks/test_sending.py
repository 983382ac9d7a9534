"""A letter reaches its URL: signed, retried so often, never twice after a crash."""

import base64
import hashlib
import hmac
import json
import socket
from collections.abc import Iterator
from datetime import timedelta
from http.server import ThreadingHTTPServer

import pytest

from control.fleet.incidents import facts, letters
from control.models import Incident, IncidentLetter
from control.states import Delivery
from control.webhooks import rules, sending
from tests.placement.world import AT
from tests.webhooks.hook import running


@pytest.fixture
def hook() -> Iterator[ThreadingHTTPServer]:
    with running() as server:
        yield server


def a_letter(url: str) -> IncidentLetter:
    key = str(Incident.objects.count())
    incident = Incident.objects.create(kind="node lost", key=key, about="n1", opened_at=AT)
    waits = {"url": url, "delivery": Delivery.WAITING, "try_at": AT}
    return IncidentLetter.objects.create(incident=incident, event="opened", at=AT, **waits)


def send(at):
    return sending.send((letters.BOX,), at)


def test_a_letter_arrives_once_and_signed(db, hook):
    letter = a_letter(hook.url)
    assert send(AT) == 1
    assert send(AT + timedelta(days=1)) == 0
    [(headers, body)] = hook.seen
    assert json.loads(body)["data"]["about"] == "n1"
    secret = base64.b64decode(facts.secret_text().removeprefix("whsec_"))
    told = {name.lower(): value for name, value in headers.items()}
    signed = f"{told['webhook-id']}.{told['webhook-timestamp']}.".encode() + body
    mac = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert told["webhook-signature"] == f"v1,{mac}"
    letter.refresh_from_db()
    assert (letter.delivery, letter.tries, letter.answer) == ("delivered", 1, "")


def test_a_refused_letter_is_tried_again_under_the_same_id_and_then_given_up(db, hook):
    letter, at = a_letter(hook.url), AT
    hook.statuses += [500] * rules.TRIES_MAX
    for _ in range(rules.TRIES_MAX):
        assert send(at) == 1
        letter.refresh_from_db()
        at = letter.try_at or at + timedelta(days=1)
    assert send(at) == 0
    assert (letter.delivery, letter.tries, letter.answer) == (
        "failed",
        rules.TRIES_MAX,
        "status 500",
    )
    ids = {headers.get("webhook-id") for headers, _ in hook.seen}
    assert ids == {f"incident_{letter.incident_id}_opened"}
    assert len({body for _, body in hook.seen}) == 1


def test_a_redirect_is_no_answer_and_is_not_followed(db, hook):
    letter = a_letter(hook.url)
    hook.statuses += [302]
    send(AT)
    letter.refresh_from_db()
    assert (letter.delivery, letter.answer, len(hook.seen)) == ("waiting", "status 302", 1)


def test_nobody_at_the_address_is_a_failed_try(db):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        letter = a_letter(f"http://127.0.0.1:{taken.getsockname()[1]}/")
        send(AT)
    letter.refresh_from_db()
    assert letter.delivery == "waiting"
    assert "Connect" in letter.answer


def test_a_host_that_says_nothing_has_a_time_limit(db, monkeypatch):
    monkeypatch.setattr(sending, "SECONDS_MAX", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        letter = a_letter(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        send(AT)
    letter.refresh_from_db()
    assert letter.delivery == "waiting"
    assert letter.tries == 1


def test_a_sender_that_was_killed_meanwhile_sends_nothing_twice(db, hook, monkeypatch):
    letter = a_letter(hook.url)

    class Killed(BaseException):
        """kill -9, between the answer and its record."""

    def die(*_args: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(sending, "_settle", die)
        with pytest.raises(Killed):
            send(AT)
    assert send(AT + timedelta(seconds=5)) == 0
    assert send(AT + sending.SENDER_IS_DEAD_AFTER) == 0
    letter.refresh_from_db()
    assert (letter.delivery, len(hook.seen)) == ("unknown", 1)


def test_two_senders_never_take_the_same_letter(db, hook):
    for _ in range(3):
        a_letter(hook.url)
    first = sending._claim(letters.BOX, AT)
    assert len(first) == 3
    assert sending._claim(letters.BOX, AT) == []
