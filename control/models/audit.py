"""Who did what, and why. Append-only."""

from django.db import models


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
