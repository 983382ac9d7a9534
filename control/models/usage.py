"""What calls used: immutable events, and counts of what was refused before admission."""

from django.db import models

from control.models.catalog import Version
from control.models.money import Price
from control.models.tenancy import Key, Project, Tenant


class UsageEvent(models.Model):
    """One admitted call, for ever. Unique by (tenant, call id, kind); a trigger refuses changes."""

    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="usage")
    project = models.ForeignKey(Project, models.PROTECT, related_name="+")
    key = models.ForeignKey(Key, models.PROTECT, related_name="+")
    call_id = models.CharField(max_length=40)
    kind = models.CharField(max_length=16, default="final")
    route = models.CharField(max_length=96)
    version = models.ForeignKey(
        Version, models.PROTECT, null=True, blank=True, related_name="usage"
    )
    replica_id = models.BigIntegerField(null=True, blank=True)
    endpoint = models.CharField(max_length=32)
    stream = models.BooleanField()
    priority = models.CharField(max_length=16)
    attempts = models.PositiveSmallIntegerField(default=1)
    outcome = models.CharField(max_length=16)
    status = models.PositiveSmallIntegerField()
    finish_reason = models.CharField(max_length=32, blank=True, default="")
    input_tokens = models.PositiveBigIntegerField(help_text="Cached ones included")
    cached_input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(help_text="Generated, reasoning included")
    reasoning_tokens = models.PositiveBigIntegerField(default=0)
    delivered_tokens = models.PositiveBigIntegerField(
        default=0, help_text="Output that was sent on"
    )
    tokens_source = models.CharField(max_length=16)
    started_at = models.DateTimeField()
    first_token_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField()
    price = models.ForeignKey(Price, models.PROTECT, null=True, blank=True, related_name="+")
    currency = models.CharField(max_length=3, blank=True, default="")
    amount_pico = models.DecimalField(max_digits=38, decimal_places=0, default=0)
    content_hash = models.CharField(max_length=64)
    ingested_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "call_id", "kind"], name="usage_event_counted_once"
            )
        ]
        indexes = [
            models.Index(fields=["started_at", "id"], name="usage_by_start"),
            models.Index(fields=["version", "started_at"], name="usage_by_version"),
        ]

    def __str__(self) -> str:
        return self.call_id


class RefusalCount(models.Model):
    """Calls refused before admission, counted per tenant, key, code and minute."""

    tenant_name = models.CharField(max_length=63, blank=True, default="")
    key_id = models.BigIntegerField(null=True, blank=True)
    code = models.CharField(max_length=48)
    minute = models.DateTimeField()
    count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant_name", "key_id", "code", "minute"],
                nulls_distinct=False,
                name="refusals_of_a_minute",
            )
        ]

    def __str__(self) -> str:
        return f"{self.code} x {self.count}"


class SpoolPosition(models.Model):
    """How far refusals of a spool are counted: unlike events, a count has no id to know it by."""

    owner = models.CharField(max_length=190, primary_key=True)
    segment = models.PositiveIntegerField()
    offset = models.PositiveBigIntegerField()
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.owner} {self.segment}:{self.offset}"
