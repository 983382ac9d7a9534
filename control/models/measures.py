"""What launches of a version taught: the memory they really took, how long they took to start."""

from django.db import models

from control.models.catalog import Version
from control.models.replica import Replica


class VersionPeak(models.Model):
    """The most that launches took of a device of one name; null is what the engine did not say."""

    version = models.ForeignKey(Version, models.CASCADE, related_name="peaks")
    device_name = models.CharField(max_length=128)
    device_kind = models.CharField(max_length=8, help_text="gpu or cpu")
    weights_bytes = models.BigIntegerField(null=True, blank=True)
    consumed_bytes = models.BigIntegerField(
        null=True, blank=True, help_text="Weights and all that the engine's libraries hold"
    )
    activation_bytes = models.BigIntegerField(null=True, blank=True)
    graph_bytes = models.BigIntegerField(null=True, blank=True)
    kv_bytes = models.BigIntegerField(null=True, blank=True)
    kv_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    beside_kv_bytes = models.BigIntegerField(
        null=True, blank=True, help_text="Seen by the driver or the kernel, KV cache taken off"
    )
    host_bytes = models.BigIntegerField(null=True, blank=True, help_text="RAM of its processes")
    launches = models.PositiveIntegerField(default=0)
    measured_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["version", "device_name"], name="one_peak_a_version_and_device_name"
            )
        ]

    def __str__(self) -> str:
        return f"{self.version} on {self.device_name}"


class ColdStart(models.Model):
    """How long one launch took to be ready, part by part."""

    replica = models.OneToOneField(Replica, models.CASCADE, related_name="cold_start")
    version = models.ForeignKey(Version, models.CASCADE, related_name="cold_starts")
    wait_seconds = models.FloatField(help_text="Until its node took it")
    fetch_seconds = models.FloatField(help_text="Runtime and weights")
    import_seconds = models.FloatField()
    load_seconds = models.FloatField()
    capture_seconds = models.FloatField(help_text="Profile, compilation, graphs")
    warm_up_seconds = models.FloatField()
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["version", "at"], name="cold_starts_of_a_version")]

    def __str__(self) -> str:
        return f"{self.replica}: ready after {self.seconds:.0f} s"

    @property
    def seconds(self) -> float:
        return (
            self.wait_seconds
            + self.fetch_seconds
            + self.import_seconds
            + self.load_seconds
            + self.capture_seconds
            + self.warm_up_seconds
        )


class WakeUp(models.Model):
    """How long one sleeping engine took until it served again."""

    replica = models.ForeignKey(Replica, models.CASCADE, related_name="wake_ups")
    version = models.ForeignKey(Version, models.CASCADE, related_name="wake_ups")
    seconds = models.FloatField()
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["version", "at"], name="wake_ups_of_a_version")]

    def __str__(self) -> str:
        return f"{self.replica}: awake after {self.seconds:.1f} s"
