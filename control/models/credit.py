"""What tenants paid ahead, and who was told of which budget that is nearly used up."""

from django.db import models

from control.models.letters import Letter
from control.models.money import Account, Transfer
from control.models.tenancy import Tenant
from control.states import Delivery


class CreditEntry(models.Model):
    """Credit that came in, or was taken back. Append-only; its transfer is in the ledger."""

    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="credit_entries")
    account = models.ForeignKey(Account, models.PROTECT, related_name="entries")
    transfer = models.OneToOneField(Transfer, models.PROTECT, related_name="credit_entry")
    kind = models.CharField(max_length=16)
    currency = models.CharField(max_length=3)
    amount_pico = models.DecimalField(max_digits=38, decimal_places=0, help_text="Of a refund < 0")
    by = models.CharField(max_length=128)
    reason = models.TextField()
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["tenant", "-at"], name="credit_by_tenant")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.amount_pico} for {self.tenant}"


class CreditSpan(models.Model):
    """From when until when calls were paid for by credit: by their start. Spans do not overlap."""

    account = models.ForeignKey(Account, models.CASCADE, related_name="spans")
    begins_at = models.DateTimeField()
    ends_at = models.DateTimeField(help_text="Far away while they are")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account", "begins_at"], name="span_begins_once")
        ]

    def __str__(self) -> str:
        return f"{self.account} from {self.begins_at:%Y-%m-%d %H:%M}"


class BudgetAlert(Letter):
    """A part of an account that is used: told once for each amount that it had."""

    account = models.ForeignKey(
        Account, models.SET_NULL, null=True, blank=True, related_name="alerts"
    )
    tenant = models.ForeignKey(Tenant, models.CASCADE, related_name="alerts")
    scope = models.CharField(max_length=200, help_text="As people read it: project acme/search")
    unit = models.CharField(max_length=8)
    currency = models.CharField(max_length=3, blank=True, default="")
    period = models.CharField(max_length=8, blank=True, default="")
    mode = models.CharField(max_length=8)
    begins_at = models.DateTimeField()
    percent = models.PositiveSmallIntegerField()
    amount = models.DecimalField(max_digits=38, decimal_places=0)
    marked = models.DecimalField(max_digits=38, decimal_places=0, default=0)
    spent = models.DecimalField(max_digits=38, decimal_places=0)
    at = models.DateTimeField()
    seen_at = models.DateTimeField(null=True, blank=True)
    seen_by = models.CharField(max_length=128, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["account", "amount", "percent"], name="one_alert_a_threshold"
            )
        ]
        indexes = [
            models.Index(
                fields=["try_at"],
                condition=models.Q(delivery__in=[Delivery.WAITING, Delivery.SENDING]),
                name="alerts_to_send",
            ),
            models.Index(fields=["-at"], name="alerts_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.percent} % of {self.scope}"
