"""An operator is an administrator's key: one that is blocked is nobody, at once and everywhere."""

from base64 import b64encode

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from rest_framework.test import APIClient

pytestmark = pytest.mark.django_db
PASSWORD = "a-long-enough-password"


def by_password(name: str) -> APIClient:
    client = APIClient()
    given = b64encode(f"{name}:{PASSWORD}".encode()).decode()
    client.credentials(HTTP_AUTHORIZATION=f"Basic {given}")
    return client


@pytest.mark.parametrize("gone", ["blocked", "deleted"])
def test_k01_an_operator_that_is_gone_is_answered_as_one_nobody_knows(gone):
    """Staff had a shortcut past the test in the field; here each request asks the database."""
    user = get_user_model().objects.create_user("ann", password=PASSWORD, is_staff=True)
    signed_in = Client()
    signed_in.force_login(user)
    api = by_password("ann")
    assert api.get("/api/tenants/").status_code == 200
    assert signed_in.get("/api/tenants/").status_code == 200
    if gone == "blocked":
        get_user_model().objects.filter(pk=user.pk).update(is_active=False)
    else:
        user.delete()
    unknown = by_password("nobody").get("/api/tenants/")
    refused = api.get("/api/tenants/")
    assert refused.status_code == unknown.status_code == 401
    assert refused.json() == unknown.json()
    assert signed_in.get("/api/tenants/").status_code == 401
    assert signed_in.get("/").status_code == 302  # to sign in


def test_k01_one_that_is_staff_no_more_may_nothing():
    user = get_user_model().objects.create_user("ann", password=PASSWORD, is_staff=True)
    api = by_password("ann")
    assert api.get("/api/tenants/").status_code == 200
    get_user_model().objects.filter(pk=user.pk).update(is_staff=False)
    assert api.get("/api/tenants/").status_code == 403
