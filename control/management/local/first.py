"""What a new home needs before anybody can use it: a login and a key."""

import secrets
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth import get_user_model

from control.management.local.home import Home
from control.models import Key, Tenant
from control.models.sealing import digest_of
from control.states import KeyState
from control.tenancy import actions

OPERATOR = "operator"
OPERATOR_FILE = "operator"
KEY = "first"
KEY_FILE = "first-key"
PASSWORD_BYTES = 12


@dataclass(frozen=True)
class Secret:
    """Shown if it is known here, else why it is not and what to do."""

    text: str
    note: str


def operator(home: Home) -> Secret:
    """The console's login; its password is made once and kept 0600 in the home."""
    kept = home.read(OPERATOR_FILE).strip()
    users = get_user_model().objects
    user = users.filter(username=OPERATOR).first()
    if user is None:
        password = kept or secrets.token_urlsafe(PASSWORD_BYTES)
        home.write_private(OPERATOR_FILE, password + "\n")
        users.create_superuser(OPERATOR, password=password)
        return Secret(password, f"kept in {home.path}/{OPERATOR_FILE}")
    if kept and user.check_password(kept):
        return Secret(kept, f"kept in {home.path}/{OPERATOR_FILE}")
    return Secret("", "changed or made elsewhere; `weir changepassword operator` sets another")


def key(home: Home, tenant: str, *, at: datetime) -> Secret:
    """The first tenant's key, kept so that later starts can show it again."""
    kept = home.read(KEY_FILE).strip()
    another = f"`weir key create --tenant {tenant} --name NAME` makes another"
    if kept:
        if Key.objects.filter(digest=digest_of(kept), state=KeyState.ACTIVE).exists():
            return Secret(kept, f"kept in {home.path}/{KEY_FILE} to show it again: delete at will")
        return Secret("", f"the one in {home.path}/{KEY_FILE} is no longer valid; {another}")
    if not Tenant.objects.filter(name=tenant, archived_at=None).exists():
        return Secret("", "no tenant yet")
    if Key.objects.filter(tenant__name=tenant, name=KEY).exists():
        return Secret("", f"shown before; {another}")
    made = actions.create_key(
        tenant=tenant, name=KEY, by="weir up", reason="first key of this home", at=at
    )
    home.write_private(KEY_FILE, made.secret + "\n")
    return Secret(made.secret, f"kept in {home.path}/{KEY_FILE} to show it again: delete at will")
