"""What device time was spent on and what it cost: measured by the hour, then given to calls."""

from django.db import models

from control.models.catalog import CatalogModel, Version
from control.models.deployment import Deployment
from control.models.tenancy import Project, Tenant

PICO = {"max_digits": 38, "decimal_places": 0, "default": 0}


class CostPool(models.Model):
    """Who pays for what a pool's devices did not work, from an instant on."""

    pool = models.SlugField(max_length=63)
    idle = models.CharField(max_length=16, help_text="proportional, reserved or unallocated")
    practical_ratio = models.DecimalField(
        max_digits=4, decimal_places=3, default=1, help_text="Use at which unallocated cost is told"
    )
    valid_from = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.pool}: {self.idle} from {self.valid_from:%Y-%m-%d %H:%M}"


class TokenWeights(models.Model):
    """Device time of a token class beside one of uncached input, of a model or one version."""

    model = models.ForeignKey(CatalogModel, models.CASCADE, related_name="token_weights")
    version = models.ForeignKey(
        Version, models.CASCADE, null=True, blank=True, related_name="token_weights"
    )
    cached_input = models.DecimalField(max_digits=12, decimal_places=6)
    output = models.DecimalField(max_digits=12, decimal_places=6)
    source = models.CharField(max_length=8, help_text="given or measured")
    hours = models.PositiveIntegerField(default=0, help_text="That a measured one was made of")
    valid_from = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.version or self.model} from {self.valid_from:%Y-%m-%d %H:%M}"


class DeviceHour(models.Model):
    """One device in one hour: from when to when it was seen, and its energy where it tells it."""

    device_uuid = models.CharField(max_length=96)
    hour = models.DateTimeField()
    node = models.CharField(max_length=63)
    pool = models.CharField(max_length=63)
    name = models.CharField(max_length=128, help_text="What cost rates are matched with")
    kind = models.CharField(max_length=8, help_text="gpu or cpu")
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    millijoules = models.BigIntegerField(default=0)
    energy_microseconds = models.BigIntegerField(default=0, help_text="Time that those are of")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["device_uuid", "hour"], name="one_row_a_device_hour")
        ]
        indexes = [models.Index(fields=["hour"], name="device_hours_by_hour")]

    def __str__(self) -> str:
        return f"{self.node}/{self.name} {self.hour:%Y-%m-%d %H}h"


class DeviceUse(models.Model):
    """A device's time in one hour by what it was spent on; whole microseconds, so sums are exact.

    Without ties: what was paid for stays when a device, a replica or a host is removed.
    """

    device_uuid = models.CharField(max_length=96)
    hour = models.DateTimeField()
    line = models.CharField(max_length=12, help_text="busy, idle, loading, free …")
    replica_id = models.BigIntegerField(default=0, help_text="0: none held it")
    microseconds = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "device_uuid", "line", "replica_id"], name="one_line_a_device_hour"
            )
        ]

    def __str__(self) -> str:
        return f"{self.device_uuid} {self.hour:%Y-%m-%d %H}h {self.line}"


class CostHour(models.Model):
    """Device time and cost of one hour, given to calls and lines; made anew from what is measured.

    The microseconds of an hour sum to its device time, the cost to what that costs, `spread_pico`
    to zero: it moves what lines cost to the tenants that pay for them by their pool's policy.
    """

    hour = models.DateTimeField()
    pool = models.CharField(max_length=63, blank=True, help_text="Empty: not on our devices")
    line = models.CharField(max_length=12)
    deployment = models.ForeignKey(Deployment, models.CASCADE, null=True, related_name="+")
    version = models.ForeignKey(Version, models.CASCADE, null=True, related_name="+")
    tenant = models.ForeignKey(Tenant, models.CASCADE, null=True, related_name="+")
    project = models.ForeignKey(Project, models.CASCADE, null=True, related_name="+")
    device_microseconds = models.BigIntegerField(default=0)
    currency = models.CharField(max_length=3, blank=True, help_text="Of cost; empty: no rate fits")
    hardware_pico = models.DecimalField(**PICO)
    power_pico = models.DecimalField(**PICO)
    engineering_pico = models.DecimalField(**PICO)
    spread_pico = models.DecimalField(**PICO)
    assumed_microseconds = models.BigIntegerField(
        default=0, help_text="Device time whose power is assumed, neither measured nor given"
    )
    idle_policy = models.CharField(max_length=16, blank=True)
    calls = models.BigIntegerField(default=0)
    input_tokens = models.BigIntegerField(default=0, help_text="Cached ones included")
    cached_input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    ttft_ms_sum = models.BigIntegerField(default=0)
    ttft_calls = models.BigIntegerField(default=0)
    price_currency = models.CharField(max_length=3, blank=True, default="")
    charged_pico = models.DecimalField(**PICO)

    class Meta:
        indexes = [models.Index(fields=["hour"], name="cost_by_hour")]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}h {self.line}"


class CostHourMade(models.Model):
    """What an hour's cost was made of: if that has changed since, it is made anew."""

    hour = models.DateTimeField(primary_key=True)
    calls = models.BigIntegerField()
    tokens = models.BigIntegerField(default=0)
    charged_pico = models.DecimalField(**PICO)
    device_microseconds = models.BigIntegerField()
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}h"


class Variant(models.Model):
    """A version that could serve the calls of another for less; no content of either."""

    of = models.ForeignKey(Version, models.CASCADE, related_name="variants")
    version = models.ForeignKey(Version, models.CASCADE, related_name="variant_of")
    kind = models.CharField(max_length=12, help_text="smaller, quantised or distilled")
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["of", "version"], name="one_relation_a_pair")
        ]

    def __str__(self) -> str:
        return f"{self.version}: {self.kind} than {self.of}"


class CostMonth(models.Model):
    """A month (UTC) whose costs are exported as they were when it was closed. Append-only."""

    month = models.CharField(max_length=7, unique=True, help_text="As in 2026-11")
    issuer = models.CharField(max_length=160, blank=True)
    provider = models.CharField(max_length=160, blank=True)
    host = models.CharField(max_length=160, blank=True)
    region_id = models.CharField(max_length=64, blank=True)
    region_name = models.CharField(max_length=160, blank=True)
    frozen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.month


class CostShare(models.Model):
    """What a tenant's deployment, or a line of nobody's, had of a pool in a frozen month.

    Names as they were. Append-only.
    """

    month = models.ForeignKey(CostMonth, models.PROTECT, related_name="shares", db_index=False)
    position = models.PositiveIntegerField()
    pool = models.CharField(max_length=63, blank=True)
    currency = models.CharField(max_length=3)
    tenant = models.CharField(max_length=63, blank=True)
    deployment = models.CharField(max_length=63, blank=True)
    line = models.CharField(max_length=12)
    microseconds = models.BigIntegerField()
    pico = models.DecimalField(max_digits=38, decimal_places=0)
    ratio = models.DecimalField(max_digits=8, decimal_places=6, help_text="Of its pool's cost")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["month", "position"], name="share_of_a_month")
        ]

    def __str__(self) -> str:
        return f"{self.month} {self.position}"
