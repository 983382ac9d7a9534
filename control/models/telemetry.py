"""What was measured and must outlast Valkey: points for charts, device time for cost."""

from django.db import models

from control.models.replica import Replica


class Point(models.Model):
    """One sample of one subject (`replica:7`, `device:GPU-…`), every 10 s or 60 s."""

    subject = models.CharField(max_length=128)
    resolution_seconds = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    values = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["subject", "resolution_seconds", "at"], name="one_point_an_instant"
            )
        ]

    def __str__(self) -> str:
        return f"{self.subject} {self.at:%H:%M:%S}"


class ReplicaUse(models.Model):
    """Device time as the release before wrote it; carried over into DeviceUse, and gone next."""

    replica = models.ForeignKey(Replica, models.PROTECT, related_name="use")
    hour = models.DateTimeField()
    device_seconds = models.FloatField(default=0, help_text="Share of devices x time held")
    busy_seconds = models.FloatField(default=0, help_text="Of them, with a running call")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["replica", "hour"], name="one_use_an_hour")]

    def __str__(self) -> str:
        return f"{self.replica} {self.hour:%Y-%m-%d %H}h"


class CallTrace(models.Model):
    """How one call went, if there was a reason to keep it; pruned by age, hence without ties."""

    call_id = models.CharField(max_length=40, unique=True)
    key_id = models.BigIntegerField()
    route = models.CharField(max_length=96)
    replica_id = models.BigIntegerField(null=True, blank=True)
    priority = models.CharField(max_length=16, blank=True, default="")
    kept = models.CharField(max_length=16)
    outcome = models.CharField(max_length=16)
    status = models.PositiveSmallIntegerField()
    error = models.CharField(max_length=64, blank=True, default="")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    stages = models.JSONField(help_text="When each ended, in microseconds from arrival")
    decisions = models.JSONField(default=list)
    tries = models.JSONField(default=list)
    flags = models.JSONField(default=list)
    link = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        indexes = [models.Index(fields=["started_at", "id"], name="traces_by_start")]

    def __str__(self) -> str:
        return f"{self.call_id} ({self.kept})"
