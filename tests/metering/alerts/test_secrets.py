"""A secret that is rotated: two signatures for a day, then one; shown, refused, audited."""

import base64
import hashlib
import hmac
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse
from rest_framework.test import APIClient

from control.checks import Refused
from control.metering.alerts import secrets
from control.models import AuditEntry, Tenant
from control.webhooks import rules
from tests.metering.conftest import AT

WHO = {"by": "ann", "reason": "it leaked"}
URL = "https://hooks.example.com/weir"


@pytest.fixture
def acme(house) -> Tenant:
    Tenant.objects.update(alert_url=URL)
    house.tenant.refresh_from_db()
    return house.tenant


def takes(text: str, at) -> bool:
    """What a receiver does that knows this secret."""
    tenant = Tenant.objects.get()
    told = rules.signed(b"{}", "alert_1", at, *secrets.valid(tenant, at))
    signed = f"alert_1.{told['webhook-timestamp']}.".encode() + b"{}"
    key = base64.b64decode(text.removeprefix("whsec_"))
    mac = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return f"v1,{mac}" in told["webhook-signature"].split()


def test_old_and_new_receivers_take_messages_for_a_day(acme):
    old = secrets.secret("acme", AT).text
    made = secrets.rotate("acme", at=AT, **WHO)
    assert (made.text != old, made.previous_until) == (True, AT + secrets.OVERLAP)
    assert takes(old, AT)
    assert takes(made.text, AT)
    later = AT + secrets.OVERLAP
    assert not takes(old, later)
    assert takes(made.text, later)
    assert secrets.secret("acme", later).previous_until is None


def test_rotated_twice_the_first_one_is_known_no_more(acme):
    first = secrets.secret("acme", AT).text
    second = secrets.rotate("acme", at=AT, **WHO).text
    third = secrets.rotate("acme", at=AT + timedelta(minutes=1), **WHO).text
    assert [takes(text, AT + timedelta(minutes=1)) for text in (first, second, third)] == [
        False,
        True,
        True,
    ]


def test_it_is_in_the_audit_without_a_secret(acme):
    made = secrets.rotate("acme", at=AT, **WHO)
    [entry] = AuditEntry.objects.filter(action="rotate alert secret")
    assert (entry.by, entry.reason, entry.after["number"]) == ("ann", "it leaked", 1)
    assert made.text not in str(entry.after)


def test_what_has_no_receiver_is_refused(house):
    with pytest.raises(Refused, match="acme has none: name where its alerts go first"):
        secrets.rotate("acme", at=AT, **WHO)
    with pytest.raises(Refused, match="there is no tenant 'nobody'"):
        secrets.rotate("nobody", at=AT, **WHO)


def test_page_and_api_rotate_it(acme, client):
    operator = get_user_model().objects.create_user("ann", is_staff=True)
    client.force_login(operator)
    page = reverse("tenant", args=["acme"])
    before = secrets.secret("acme", AT).text
    assert before in client.get(page).content.decode()
    told = client.post(reverse("rotate-alert-secret", args=["acme"]), follow=True).content.decode()
    assert before not in told
    assert "each message has two signatures" in told
    api = APIClient()
    api.force_authenticate(operator)
    shown = api.get("/api/tenants/acme/alert-secret/")
    assert (shown.json()["text"] in told, shown["Cache-Control"]) == (True, "no-store")
    assert api.post("/api/tenants/acme/alert-secret/").json()["text"] != shown.json()["text"]
    assert api.get("/api/tenants/nobody/alert-secret/").status_code == 404
