"""Prices, cost rates, the ledger, accounts of budgets. Money is whole pico-units (10^-12)."""

from django.db import models

from control.models.catalog import CatalogModel
from control.models.prices import PriceBook
from control.models.tenancy import Budget, Tenant


class Price(models.Model):
    """A row of a price book: pico-units per token and class, for a priority and from a volume on.

    A trigger refuses changes. One without a book, as older releases wrote them, is a book alone.
    """

    model = models.ForeignKey(CatalogModel, models.PROTECT, related_name="prices")
    book = models.ForeignKey(PriceBook, models.PROTECT, null=True, blank=True, related_name="rows")
    currency = models.CharField(max_length=3)
    priority = models.CharField(
        max_length=16, blank=True, default="", db_default="", help_text="Empty is every other one"
    )
    tier_from_tokens = models.BigIntegerField(
        default=0, db_default=0, help_text="Of its tenant's month, with this model"
    )
    input_pico = models.BigIntegerField()
    cached_input_pico = models.BigIntegerField()
    output_pico = models.BigIntegerField()
    reasoning_pico = models.BigIntegerField(null=True, blank=True, help_text="As output, if null")
    valid_from = models.DateTimeField(help_text="As its book's")

    class Meta:
        indexes = [models.Index(fields=["model", "-valid_from"], name="price_in_force")]

    def __str__(self) -> str:
        return f"{self.model} from {self.valid_from:%Y-%m-%d %H:%M}"


class CostRate(models.Model):
    """What one device costs, by a glob on its name; the longest matching glob wins."""

    device = models.CharField(max_length=128)
    pool = models.CharField(
        max_length=63, blank=True, default="", db_default="", help_text="Empty: of every pool"
    )
    currency = models.CharField(max_length=3)
    hardware_per_hour = models.DecimalField(
        max_digits=18, decimal_places=6, help_text="The rate of a rented device"
    )
    price = models.DecimalField(
        max_digits=18, decimal_places=6, default=0, db_default=0, help_text="Of an owned device"
    )
    residual = models.DecimalField(max_digits=18, decimal_places=6, default=0, db_default=0)
    months = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Over which it is written off; 0: it is rented"
    )
    finance_per_month = models.DecimalField(
        max_digits=18, decimal_places=6, default=0, db_default=0
    )
    power_watts = models.DecimalField(
        max_digits=12, decimal_places=3, null=True, help_text="Where its energy is not measured"
    )
    load_factor = models.DecimalField(max_digits=6, decimal_places=3, default=1, db_default=1)
    host_watts = models.DecimalField(
        max_digits=12, decimal_places=3, default=0, db_default=0, help_text="Its part of the host"
    )
    power_per_kwh = models.DecimalField(max_digits=18, decimal_places=6)
    pue = models.DecimalField(max_digits=6, decimal_places=3)
    engineering_per_hour = models.DecimalField(max_digits=18, decimal_places=6)
    engineering_per_month = models.DecimalField(
        max_digits=18, decimal_places=6, default=0, db_default=0
    )
    valid_from = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.device} from {self.valid_from:%Y-%m-%d %H:%M}"


class Transfer(models.Model):
    """A movement of money: two or more postings that sum to zero. Append-only."""

    idempotency_key = models.CharField(max_length=96, unique=True)
    reason = models.CharField(max_length=128)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return self.idempotency_key


class Posting(models.Model):
    transfer = models.ForeignKey(Transfer, models.PROTECT, related_name="postings")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="+")
    account = models.CharField(max_length=24)
    currency = models.CharField(max_length=3)
    amount_pico = models.DecimalField(max_digits=38, decimal_places=0)

    def __str__(self) -> str:
        return f"{self.account} {self.amount_pico}"


class Account(models.Model):
    """What is left of a budget in one of its periods, in whole units: pico, or tokens.

    Or, without a budget and a period, of what a tenant has paid ahead.
    `spent` is of events that are stored, `leased` of gateways: amount - spent - leased is free.
    """

    budget = models.ForeignKey(
        Budget, models.CASCADE, null=True, blank=True, related_name="accounts"
    )
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, null=True, blank=True, related_name="credit", help_text="Of credit"
    )
    currency = models.CharField(
        max_length=3, blank=True, default="", db_default="", help_text="Of credit"
    )
    unit = models.CharField(max_length=8)
    begins_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    amount = models.DecimalField(max_digits=38, decimal_places=0)
    spent = models.DecimalField(max_digits=38, decimal_places=0, default=0)
    leased = models.DecimalField(max_digits=38, decimal_places=0, default=0)
    granted = models.DecimalField(
        max_digits=38, decimal_places=0, default=0, help_text="With the last lease"
    )
    marked = models.DecimalField(
        max_digits=38,
        decimal_places=0,
        default=0,
        db_default=0,
        help_text="Spent when credit last came in",
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(budget__isnull=True) ^ models.Q(tenant__isnull=True),
                name="account_of_a_budget_or_a_tenant",
            ),
            models.UniqueConstraint(
                fields=["tenant", "currency"],
                condition=models.Q(tenant__isnull=False),
                name="one_credit_account_a_currency",
            ),
            models.UniqueConstraint(
                fields=["budget", "unit", "begins_at"], name="one_account_a_period"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.budget or self.tenant} from {self.begins_at:%Y-%m-%d %H:%M}"


class AccountLease(models.Model):
    """What one gateway process holds of an account: unspent, or spent and not yet stored."""

    account = models.ForeignKey(Account, models.CASCADE, related_name="leases")
    owner = models.CharField(max_length=190, help_text="As its spool is named")
    amount = models.DecimalField(max_digits=38, decimal_places=0)
    renewed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account", "owner"], name="one_lease_an_owner")
        ]
        indexes = [models.Index(fields=["owner"], name="leases_by_owner")]

    def __str__(self) -> str:
        return f"{self.amount} of {self.account} to {self.owner}"
