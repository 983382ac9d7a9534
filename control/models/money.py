"""Prices, cost rates and the ledger. Money is whole pico-units (10^-12)."""

from django.db import models

from control.models.catalog import CatalogModel
from control.models.tenancy import Tenant


class Price(models.Model):
    """Pico-units per token and class, valid from an instant until the next entry."""

    model = models.ForeignKey(CatalogModel, models.PROTECT, related_name="prices")
    currency = models.CharField(max_length=3)
    input_pico = models.BigIntegerField()
    cached_input_pico = models.BigIntegerField()
    output_pico = models.BigIntegerField()
    valid_from = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["model", "-valid_from"], name="price_in_force")]

    def __str__(self) -> str:
        return f"{self.model} from {self.valid_from:%Y-%m-%d %H:%M}"


class CostRate(models.Model):
    """What one device costs, by a glob on its name; the longest matching glob wins."""

    device = models.CharField(max_length=128)
    currency = models.CharField(max_length=3)
    hardware_per_hour = models.DecimalField(max_digits=18, decimal_places=6)
    power_watts = models.DecimalField(max_digits=12, decimal_places=3)
    power_per_kwh = models.DecimalField(max_digits=18, decimal_places=6)
    pue = models.DecimalField(max_digits=6, decimal_places=3)
    engineering_per_hour = models.DecimalField(max_digits=18, decimal_places=6)
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
