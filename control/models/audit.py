"""Who did what, and why. Append-only."""

from datetime import datetime

from django.db import models

Change = tuple[dict | None, dict | None]


class AuditEntry(models.Model):
    at = models.DateTimeField()
    by = models.CharField(max_length=128)
    action = models.CharField(max_length=64, help_text="A verb and a noun: create key")
    subject = models.CharField(max_length=160)
    reason = models.TextField()
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.by}: {self.action} {self.subject}"


def record(
    action: str, subject: str, *, by: str, reason: str, at: datetime, change: Change = (None, None)
) -> AuditEntry:
    """Note an action in the transaction that carries it out; `change` is (before, after)."""
    before, after = change
    return AuditEntry.objects.create(
        action=action,
        subject=subject[:160],
        by=by[:128],
        reason=reason,
        at=at,
        before=before,
        after=after,
    )
