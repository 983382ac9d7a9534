"""Who may see a tenant's figures, and whose figures a person may see."""

from dataclasses import dataclass
from datetime import datetime

from control.models import TenantMember


@dataclass(frozen=True)
class MemberFacts:
    username: str
    added_at: datetime
    added_by: str
    last_login: datetime | None
    has_password: bool


def members(tenant: str) -> list[MemberFacts]:
    rows = TenantMember.objects.filter(tenant__name=tenant).select_related("user")
    return [
        MemberFacts(
            username=row.user.get_username(),
            added_at=row.added_at,
            added_by=row.added_by,
            last_login=row.user.last_login,
            has_password=row.user.has_usable_password(),
        )
        for row in rows.order_by("user__username")
    ]


def tenant_of(user) -> str | None:
    """None: nobody's, signed out, set inactive, or its tenant is in the archive."""
    if not (user and user.is_authenticated and user.is_active):
        return None
    rows = TenantMember.objects.filter(
        user_id=user.pk, user__is_active=True, tenant__archived_at=None
    )
    return rows.values_list("tenant__name", flat=True).first()
