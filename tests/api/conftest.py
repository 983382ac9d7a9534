"""Who asks in tests of the operators' API."""

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient


@pytest.fixture
def api(db) -> APIClient:
    """A client as an operator."""
    client = APIClient()
    client.force_authenticate(get_user_model().objects.create_user("ann", is_staff=True))
    return client
