"""How messages are signed, and how often they are tried."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

from control.webhooks import rules

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_a_message_is_signed_as_standard_webhooks_are():
    body, secret = b'{"a":1}', b"s" * 32
    headers = rules.signed(body, "alert_7", AT, secret)
    signed = f"alert_7.{headers['webhook-timestamp']}.".encode() + body
    mac = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{mac}"
    assert headers["webhook-id"] == "alert_7"
    assert base64.b64decode(rules.secret_text(secret).removeprefix("whsec_")) == secret


def test_tries_are_bounded_and_further_and_further_apart():
    waits = [rules.retry_at(tries, AT) for tries in range(1, rules.TRIES_MAX + 1)]
    assert waits[0] == AT + timedelta(seconds=10)
    assert waits[:-1] == sorted(waits[:-1])
    assert waits[-1] is None
