"""Versions of price books, and the volumes that their tiers go by. Rows are never changed."""

from django.db import models
from django.db.models import F, Q

from control.models.catalog import CatalogModel
from control.models.tenancy import Tenant


class PriceBook(models.Model):
    """One version of what a model costs everyone, or one tenant. A trigger refuses changes.

    In force is the newest that has begun and has not ended; a tenant's own goes before.
    """

    model = models.ForeignKey(CatalogModel, models.PROTECT, related_name="price_books")
    tenant = models.ForeignKey(
        Tenant, models.PROTECT, null=True, blank=True, related_name="price_books"
    )
    version = models.PositiveIntegerField()
    currency = models.CharField(max_length=3)
    interrupted = models.CharField(
        max_length=16, default="generated", help_text="One of states.Interrupted"
    )
    step_pico = models.BigIntegerField(help_text="Proposed prices are whole multiples of it")
    withdrawn = models.BooleanField(
        default=False, help_text="It has no rows: from then on everyone's book holds"
    )
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=128)
    reason = models.TextField(blank=True, default="")
    below_cost_reason = models.TextField(blank=True, default="")
    cost = models.JSONField(null=True, blank=True, help_text="Known when it was saved")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["model", "tenant", "version"],
                nulls_distinct=False,
                name="one_version_of_a_price_book",
            ),
            models.CheckConstraint(
                condition=Q(valid_until=None) | Q(valid_until__gt=F("valid_from")),
                name="price_book_ends_after_it_begins",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model} v{self.version}"


class PriceVolume(models.Model):
    """Tokens charged to a tenant for a model in one of its months; kept where books have tiers."""

    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="+")
    model = models.ForeignKey(CatalogModel, models.CASCADE, related_name="+")
    begins_at = models.DateTimeField()
    tokens = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "model", "begins_at"], name="one_volume_a_month"
            )
        ]

    def __str__(self) -> str:
        return f"{self.tokens} from {self.begins_at:%Y-%m-%d}"
