"""What tenants are billed: periods, invoices and their lines, credits. What is closed stays."""

from django.db import models

from control.models.catalog import Version
from control.models.money import Price
from control.models.tenancy import Key, Project, Tenant
from control.states import ChargeCategory, PeriodState


class BillingTerms(models.Model):
    """Who invoices, who offers the service and where it runs; one row."""

    issuer = models.CharField(max_length=160, help_text="The legal entity that invoices")
    provider = models.CharField(max_length=160, help_text="Who offers the service")
    host = models.CharField(max_length=160, help_text="Who runs the hardware")
    region_id = models.CharField(max_length=64, blank=True, default="")
    region_name = models.CharField(max_length=160, blank=True, default="")
    close_after_hours = models.PositiveIntegerField(
        null=True, blank=True, help_text="After a period's end; null is only by hand"
    )

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="terms_are_one_row")]

    def __str__(self) -> str:
        return self.issuer


class BillingPeriod(models.Model):
    """A month of a tenant's calendar. A trigger refuses changes once it is closed.

    It bills what started before its end and stood in the tables when its marks were taken, as far
    as the period before did not.
    """

    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="periods")
    begins_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    timezone = models.CharField(max_length=64)
    state = models.CharField(max_length=16, default=PeriodState.OPEN)
    closing_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    events_up_to = models.BigIntegerField(null=True, blank=True, help_text="The last event's id")
    credits_up_to = models.BigIntegerField(null=True, blank=True)
    calls = models.BigIntegerField(default=0)
    unpriced_calls = models.BigIntegerField(default=0, help_text="Their model had no price")
    rows_hash = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "begins_at"], name="period_begins_once")
        ]

    def __str__(self) -> str:
        return f"{self.tenant} from {self.begins_at:%Y-%m-%d %H:%M}"


class Invoice(models.Model):
    """What a tenant owes for one period in one currency. Append-only."""

    number = models.CharField(max_length=96, unique=True)
    period = models.ForeignKey(BillingPeriod, models.PROTECT, related_name="invoices")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="invoices")
    currency = models.CharField(max_length=3)
    minor_digits = models.PositiveSmallIntegerField(help_text="Decimals of what can be paid")
    issuer = models.CharField(max_length=160)
    provider = models.CharField(max_length=160, default="", db_default="")
    host = models.CharField(max_length=160, default="", db_default="")
    region_id = models.CharField(max_length=64, blank=True, default="", db_default="")
    region_name = models.CharField(max_length=160, blank=True, default="", db_default="")
    exact_pico = models.DecimalField(max_digits=38, decimal_places=0)
    rounding_pico = models.DecimalField(max_digits=38, decimal_places=0)
    payable_pico = models.DecimalField(max_digits=38, decimal_places=0)
    rows_hash = models.CharField(max_length=64)
    issued_at = models.DateTimeField()
    by = models.CharField(max_length=128)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["period", "currency"], name="one_invoice_a_currency")
        ]

    def __str__(self) -> str:
        return self.number


class InvoiceLine(models.Model):
    """A SKU of a project at one unit price: rounded once; the exact amount stays. Append-only."""

    invoice = models.ForeignKey(Invoice, models.PROTECT, related_name="lines")
    position = models.PositiveIntegerField()
    category = models.CharField(max_length=16, default=ChargeCategory.USAGE)
    is_correction = models.BooleanField(default=False)
    project = models.CharField(max_length=63, blank=True, default="")
    model = models.CharField(max_length=96, blank=True, default="")
    token_class = models.CharField(max_length=16, blank=True, default="")
    priority = models.CharField(max_length=16, blank=True, default="")
    unit_price_pico = models.BigIntegerField(null=True, blank=True)
    tokens = models.BigIntegerField(null=True, blank=True)
    effective_pico = models.DecimalField(max_digits=38, decimal_places=0)
    exact_pico = models.DecimalField(max_digits=38, decimal_places=0, help_text="To be billed")
    rounded_pico = models.DecimalField(max_digits=38, decimal_places=0)
    description = models.CharField(max_length=400, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["invoice", "position"], name="line_of_an_invoice")
        ]

    def __str__(self) -> str:
        return f"{self.invoice} {self.position}"


class Charge(models.Model):
    """One day of one SKU, key and version, as exports tell it; names as they were. Append-only."""

    invoice = models.ForeignKey(Invoice, models.PROTECT, related_name="charges")
    line = models.ForeignKey(InvoiceLine, models.PROTECT, related_name="charges")
    position = models.PositiveIntegerField()
    category = models.CharField(max_length=16, default=ChargeCategory.USAGE)
    is_correction = models.BooleanField(default=False)
    kind = models.CharField(max_length=16, blank=True, default="", help_text="Of its events")
    begins_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    project = models.ForeignKey(Project, models.PROTECT, null=True, blank=True, related_name="+")
    project_name = models.CharField(max_length=63, blank=True, default="")
    key = models.ForeignKey(Key, models.PROTECT, null=True, blank=True, related_name="+")
    key_name = models.CharField(max_length=63, blank=True, default="")
    version = models.ForeignKey(Version, models.PROTECT, null=True, blank=True, related_name="+")
    version_name = models.CharField(max_length=63, blank=True, default="")
    model = models.CharField(max_length=96, blank=True, default="")
    token_class = models.CharField(max_length=16, blank=True, default="")
    priority = models.CharField(max_length=16, blank=True, default="")
    price = models.ForeignKey(Price, models.PROTECT, null=True, blank=True, related_name="+")
    unit_price_pico = models.BigIntegerField(null=True, blank=True)
    list_price_pico = models.BigIntegerField(null=True, blank=True)
    tokens = models.BigIntegerField(null=True, blank=True)
    calls = models.BigIntegerField(null=True, blank=True)
    billed_pico = models.DecimalField(max_digits=38, decimal_places=0)
    effective_pico = models.DecimalField(
        max_digits=38, decimal_places=0, help_text="Of usage paid ahead: what it took of the credit"
    )
    corrects = models.CharField(max_length=160, blank=True, default="", help_text="A row's name")
    transfer = models.CharField(max_length=96, blank=True, default="", help_text="In the ledger")
    description = models.CharField(max_length=400, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["invoice", "position"], name="charge_of_an_invoice")
        ]

    def __str__(self) -> str:
        return f"{self.invoice} charge {self.position}"


class GoodwillCredit(models.Model):
    """A sum that a tenant is let off, of its own accord and not to repair usage. Append-only."""

    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="goodwill")
    currency = models.CharField(max_length=3)
    amount_pico = models.DecimalField(max_digits=38, decimal_places=0)
    reason = models.CharField(max_length=300)
    by = models.CharField(max_length=128)
    at = models.DateTimeField()
    token = models.CharField(max_length=64, unique=True, help_text="Asking twice grants once")

    def __str__(self) -> str:
        return f"{self.amount_pico} {self.currency} to {self.tenant}"


class ExportSchedule(models.Model):
    """Files that are written on a clock: what, of whom, how often, and where to."""

    name = models.SlugField(max_length=63, unique=True)
    what = models.CharField(max_length=16)
    format = models.CharField(max_length=8)
    focus_version = models.CharField(max_length=8, blank=True, default="")
    tenant = models.ForeignKey(Tenant, models.CASCADE, null=True, blank=True, related_name="+")
    every = models.CharField(max_length=8, default="month")
    destination = models.CharField(max_length=400, help_text="file:///folder or s3://bucket/folder")
    begins_at = models.DateTimeField(help_text="What ended before it is not written")
    done_until = models.DateTimeField(null=True, blank=True)
    tried_at = models.DateTimeField(null=True, blank=True)
    wrote = models.CharField(max_length=600, blank=True, default="", help_text="The last file")
    error = models.TextField(blank=True, default="")

    def __str__(self) -> str:
        return self.name
