"""What a new home needs before anybody can use it: a login and a key."""

import secrets
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth import get_user_model

from control.management.local.home import Home
from control.models import Key
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


def key(home: Home, tenant: str, made: str | None, *, at: datetime) -> Secret:
    """A key of the first tenant, kept so that later starts can show it again.

    `made` is one that applying the file has just made; without any, one is made here.
    """
    where = f"kept in {home.path}/{KEY_FILE} to be shown again; remove that file at will"
    another = f"`weir key create --tenant {tenant} --name NAME` makes another"
    if made:
        home.write_private(KEY_FILE, made + "\n")
        return Secret(made, where)
    if kept := home.read(KEY_FILE).strip():
        if Key.objects.filter(digest=digest_of(kept), state=KeyState.ACTIVE).exists():
            return Secret(kept, where)
        return Secret("", f"the one in {home.path}/{KEY_FILE} is not valid here; {another}")
    if Key.objects.filter(tenant__name=tenant, name=KEY).exists():
        return Secret("", f"shown before; {another}")
    new = actions.create_key(
        tenant=tenant, name=KEY, by="weir up", reason="first key of this home", at=at
    )
    home.write_private(KEY_FILE, new.secret + "\n")
    return Secret(new.secret, where)
