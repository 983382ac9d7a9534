"""`weir key create`: a route that is not there is refused, with what to do."""

import io

import pytest
from django.core.management import CommandError, call_command

from control.models import Key, Project, Route, Tenant

pytestmark = pytest.mark.django_db


def test_an_unknown_route_makes_no_key():
    tenant = Tenant.objects.create(name="acme")
    Project.objects.create(tenant=tenant, name="default")
    Route.objects.create(name="chat")
    named = ("--tenant", "acme", "--name", "ci", "--route", "chat")
    with pytest.raises(CommandError, match="there is no route 'nope': make it first"):
        call_command("key", "create", *named, "--route", "nope")
    assert not Key.objects.exists()
    secret = io.StringIO()
    call_command("key", "create", *named, stdout=secret)
    assert secret.getvalue().startswith("weir-")
    assert Key.objects.get().routes == ["chat"]
