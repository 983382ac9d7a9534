"""What calls used: immutable events, their sums by the hour, counts of what was refused."""

from datetime import date

from django.contrib.postgres.indexes import BrinIndex
from django.db import models

from control.models.catalog import Version
from control.models.money import Price
from control.models.tenancy import Key, Project, Tenant

UNDATED = date(1970, 1, 1)  # the month of ids that tell none


def _named(to: type[models.Model], **options) -> models.ForeignKey:
    """Checked in bulk: the roll-up of the event has the same names, and real foreign keys."""
    unchecked = {"db_constraint": False, "db_index": False}
    return models.ForeignKey(to, models.DO_NOTHING, **unchecked, **options)


class UsageEvent(models.Model):
    """One admitted call, for ever; or (kind `adj1`, `adj2` …) what corrects one.

    A table of partitions: the month follows from the call's id, so that unique by (tenant, call
    id, kind, month) is unique for ever. A trigger refuses changes. `id` has no unique index.
    """

    tenant = _named(Tenant, related_name="usage")
    project = _named(Project, related_name="+")
    key = _named(Key, related_name="+")
    call_id = models.CharField(max_length=40)
    kind = models.CharField(max_length=16, default="final")
    month = models.DateField(default=UNDATED, help_text="Of the call's id; see metering.months")
    corrects = models.CharField(
        max_length=16, blank=True, default="", help_text="The kind of this call that it corrects"
    )
    route = models.CharField(max_length=96)
    version = _named(Version, null=True, blank=True, related_name="usage")
    replica_id = models.BigIntegerField(null=True, blank=True)
    endpoint = models.CharField(max_length=32)
    stream = models.BooleanField()
    priority = models.CharField(max_length=16)
    attempts = models.PositiveSmallIntegerField(default=1)
    outcome = models.CharField(max_length=16)
    status = models.PositiveSmallIntegerField()
    finish_reason = models.CharField(max_length=32, blank=True, default="")
    input_tokens = models.BigIntegerField(help_text="Cached ones included")
    cached_input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(help_text="Generated, reasoning included")
    reasoning_tokens = models.BigIntegerField(default=0)
    delivered_tokens = models.BigIntegerField(default=0, help_text="Output that was sent on")
    billed_input = models.BigIntegerField(default=0, help_text="Not from the cache")
    billed_cached_input = models.BigIntegerField(default=0)
    billed_output = models.BigIntegerField(default=0, help_text="Without reasoning")
    billed_reasoning = models.BigIntegerField(default=0)
    tokens_source = models.CharField(max_length=16)
    started_at = models.DateTimeField()
    first_token_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField()
    price = _named(Price, null=True, blank=True, related_name="+")
    currency = models.CharField(max_length=3, blank=True, default="")
    amount_pico = models.DecimalField(max_digits=38, decimal_places=0, default=0)
    batch = models.BigIntegerField(default=0, help_text="Stored with it; 0 before there were any")
    content_hash = models.CharField(max_length=64)
    ingested_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["call_id", "tenant", "kind", "month"], name="usage_event_counted_once"
            )
        ]
        indexes = [
            models.Index(fields=["started_at", "id"], name="usage_by_start"),
            BrinIndex(fields=["id"], name="usage_by_id"),  # what came after a month was closed
            models.Index(  # few: a preview of prices reads no month for them
                fields=["version", "started_at"],
                condition=models.Q(kind="final") & ~models.Q(outcome="complete"),
                name="usage_interrupted",
            ),
        ]

    def __str__(self) -> str:
        return self.call_id


class UsageHour(models.Model):
    """Sums over the events that started in one hour (UTC) and are alike; rebuilt from them."""

    hour = models.DateTimeField()
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+", db_index=False)
    project = models.ForeignKey(Project, models.PROTECT, related_name="+")
    key = models.ForeignKey(Key, models.PROTECT, related_name="+")
    version = models.ForeignKey(
        Version, models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    price = models.ForeignKey(
        Price, models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    route = models.CharField(max_length=96)
    endpoint = models.CharField(max_length=32)
    priority = models.CharField(max_length=16)
    outcome = models.CharField(max_length=16)
    currency = models.CharField(max_length=3, blank=True, default="")
    calls = models.BigIntegerField(default=0, help_text="Corrections are none")
    input_tokens = models.BigIntegerField(default=0)
    cached_input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    reasoning_tokens = models.BigIntegerField(default=0)
    delivered_tokens = models.BigIntegerField(default=0)
    billed_input = models.BigIntegerField(default=0)
    billed_cached_input = models.BigIntegerField(default=0)
    billed_output = models.BigIntegerField(default=0)
    billed_reasoning = models.BigIntegerField(default=0)
    amount_pico = models.DecimalField(max_digits=38, decimal_places=0, default=0)
    ttft_ms_sum = models.BigIntegerField(default=0)
    ttft_calls = models.BigIntegerField(default=0, help_text="Those that had a first token")
    duration_ms_sum = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    *("hour", "tenant", "project", "key", "version", "route", "endpoint"),
                    *("priority", "outcome", "price", "currency"),
                ],
                nulls_distinct=False,
                name="usage_of_an_hour",
            )
        ]
        indexes = [models.Index(fields=["tenant", "hour"], name="usage_hours_by_tenant")]

    def __str__(self) -> str:
        return f"{self.calls} calls from {self.hour:%Y-%m-%d %H:%M}"


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
    """How far a spool is stored. Refusals are counted up to its place: a count has no id."""

    owner = models.CharField(max_length=190, primary_key=True)
    segment = models.PositiveIntegerField()
    offset = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    read_until = models.DateTimeField(
        null=True, blank=True, help_text="Calls that ended before it are stored"
    )
    stored_until = models.DateTimeField(
        null=True, blank=True, help_text="Calls that started before it are stored"
    )
    open_calls = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.owner} {self.segment}:{self.offset}"
