"""People of a tenant: added, invited again, removed. They choose their passwords themselves."""

from dataclasses import dataclass, field
from datetime import datetime

from django.contrib.auth import get_user_model
from django.contrib.auth.tokens import default_token_generator
from django.db import IntegrityError, transaction
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from control import checks
from control.models import TenantMember
from control.models.audit import record
from control.tenancy.actions import active_tenant
from control.tenancy.members import rules


@dataclass(frozen=True)
class Invitation:
    """Where a person chooses a password: once, within three days, and told only now."""

    username: str
    uid: str
    token: str = field(repr=False)

    @property
    def path(self) -> str:
        return f"/password/{self.uid}/{self.token}/"


def add_member(tenant: str, username: str, *, by: str, reason: str, at: datetime) -> Invitation:
    checks.require(rules.username_problems("username", username))
    users = get_user_model().objects
    with transaction.atomic():
        owner = active_tenant(tenant)
        if owner.members.count() >= rules.MEMBERS_MAX:
            raise checks.refuse("username", f"a tenant has at most {rules.MEMBERS_MAX} members")
        try:
            with transaction.atomic():
                user = users.create_user(username)  # without a password nobody signs in
        except IntegrityError:
            what = f"there is a user {username!r}: take another name"
            raise checks.refuse("username", what) from None
        TenantMember.objects.create(user=user, tenant=owner, added_at=at, added_by=by[:128])
        record("add member", f"{tenant}/{username}", by=by, reason=reason, at=at)
    return _invitation(user)


def invite_again(tenant: str, username: str, *, by: str, reason: str, at: datetime) -> Invitation:
    """Another link; a password that was chosen holds until the link is used."""
    with transaction.atomic():
        member = _member(tenant, username)
        record("invite member", f"{tenant}/{username}", by=by, reason=reason, at=at)
    return _invitation(member.user)


def remove_member(tenant: str, username: str, *, by: str, reason: str, at: datetime) -> None:
    """At once: sessions are those of a user, and there is none any more."""
    with transaction.atomic():
        _member(tenant, username).user.delete()
        record("remove member", f"{tenant}/{username}", by=by, reason=reason, at=at)


def _member(tenant: str, username: str) -> TenantMember:
    owner = active_tenant(tenant)
    found = owner.members.select_related("user").filter(user__username=username).first()
    if found is None:
        raise checks.unknown("username", f"tenant {tenant!r} has no member {username[:150]!r}")
    return found


def _invitation(user) -> Invitation:
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    return Invitation(user.get_username(), uid, default_token_generator.make_token(user))
