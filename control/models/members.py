"""People who may see the figures of one tenant, and nothing else."""

from django.conf import settings
from django.db import models

from control.models.tenancy import Tenant


class TenantMember(models.Model):
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="member")
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="members")
    added_at = models.DateTimeField()
    added_by = models.CharField(max_length=128)

    def __str__(self) -> str:
        return f"{self.user} of {self.tenant}"
