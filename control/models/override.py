"""What a failure taught: how the next launches of a version differ from what it asks for."""

from django.db import models

from control.models.catalog import Version
from control.models.deployment import Deployment
from control.models.fleet import Node
from control.models.replica import Replica


class Override(models.Model):
    """In force while its deployment wants its version and nobody has dropped it."""

    deployment = models.ForeignKey(Deployment, models.CASCADE, related_name="overrides")
    version = models.ForeignKey(Version, models.CASCADE, related_name="overrides")
    replica = models.OneToOneField(
        Replica,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="override",
        help_text="Whose failure it cures: one failure is cured once",
    )
    node = models.ForeignKey(
        Node,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="overrides",
        help_text="Of a limit that holds for a whole host",
    )
    cause = models.CharField(max_length=64)
    changes = models.JSONField(help_text="Changes, as named: arguments, memory, devices, host")
    reason = models.TextField()
    created_at = models.DateTimeField()
    dropped_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["deployment", "version"],
                condition=models.Q(dropped_at=None),
                name="overrides_in_force",
            )
        ]

    def __str__(self) -> str:
        return f"{self.deployment}: {self.cause}"
