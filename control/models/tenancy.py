"""Who pays, and with which key: tenants, projects, keys, and the ceilings on each."""

from django.db import models

from control.states import Billing, BudgetMode, KeyState, Priority


class Tenant(models.Model):
    name = models.SlugField(max_length=63, unique=True)
    priority = models.CharField(max_length=16, default=Priority.STANDARD)
    timezone = models.CharField(max_length=64, default="UTC")
    billing = models.CharField(max_length=16, default=Billing.POSTPAID, db_default=Billing.POSTPAID)
    credit_currency = models.CharField(max_length=3, blank=True, default="", db_default="")
    alert_url = models.CharField(
        max_length=500,
        blank=True,
        default="",
        db_default="",
        help_text="Told when budgets are used up",
    )
    alert_secret_number = models.PositiveIntegerField(
        default=0, db_default=0, help_text="How often it was rotated"
    )
    alert_secret_until = models.DateTimeField(
        null=True, blank=True, help_text="Until then the one before signs too"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Project(models.Model):
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="projects")
    name = models.SlugField(max_length=63)
    devices_guaranteed = models.PositiveIntegerField(default=0, help_text="Kept free for it")
    devices_maximum = models.PositiveIntegerField(null=True, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="project_name_in_tenant")
        ]

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"


class Key(models.Model):
    """A named credential. Only HMAC-SHA256 digests are stored (hex, 64 characters)."""

    project = models.ForeignKey(Project, models.PROTECT, related_name="keys")
    tenant = models.ForeignKey(Tenant, models.PROTECT, related_name="keys")
    name = models.SlugField(max_length=63)
    shown = models.CharField(max_length=16, help_text="First 3 and last 4 characters")
    digest = models.CharField(max_length=64, unique=True)
    previous_digest = models.CharField(max_length=64, blank=True, default="", db_index=True)
    previous_valid_until = models.DateTimeField(null=True, blank=True)
    state = models.CharField(max_length=16, default=KeyState.ACTIVE)
    routes = models.JSONField(null=True, blank=True, help_text="Route names; null is every route")
    endpoints = models.JSONField(null=True, blank=True, help_text="Null is every endpoint")
    networks = models.JSONField(default=list, blank=True, help_text="CIDR; none named is anywhere")
    priority = models.CharField(
        max_length=16, blank=True, default="", help_text="The most urgent of its calls"
    )
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "name"],
                condition=models.Q(state=KeyState.ACTIVE),
                name="one_active_key_of_a_name",
            )
        ]

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"


class ScopedModel(models.Model):
    """A ceiling on one tenant, project or key; the unused two of the three are null."""

    tenant = models.ForeignKey(Tenant, models.CASCADE, null=True, blank=True)
    project = models.ForeignKey(Project, models.CASCADE, null=True, blank=True)
    key = models.ForeignKey(Key, models.CASCADE, null=True, blank=True)

    class Meta:
        abstract = True


def _one_scope(name: str) -> models.CheckConstraint:
    """Exactly one of tenant, project and key is named."""
    only = [
        models.Q(**{f"{field}__isnull": field != named for field in ("tenant", "project", "key")})
        for named in ("tenant", "project", "key")
    ]
    return models.CheckConstraint(condition=only[0] | only[1] | only[2], name=name)


class Quota(ScopedModel):
    """Limits of one scope. Null is no limit; scopes do not inherit, all must have room."""

    requests_per_second = models.PositiveIntegerField(null=True, blank=True)
    burst = models.PositiveIntegerField(null=True, blank=True, help_text="Requests in one instant")
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    input_tokens_per_minute = models.PositiveBigIntegerField(null=True, blank=True)
    output_tokens_per_minute = models.PositiveBigIntegerField(null=True, blank=True)
    concurrent_calls = models.PositiveIntegerField(null=True, blank=True)
    context_tokens = models.PositiveIntegerField(null=True, blank=True)
    output_tokens = models.PositiveIntegerField(null=True, blank=True)
    end_user_requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    end_user_output_tokens_per_minute = models.PositiveBigIntegerField(null=True, blank=True)
    address_requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    identical_calls = models.PositiveIntegerField(
        null=True, blank=True, help_text="In flight at once, of one key"
    )

    class Meta:
        constraints = [
            _one_scope("quota_has_one_scope"),
            models.UniqueConstraint(
                fields=["tenant", "project", "key"], nulls_distinct=False, name="one_quota_a_scope"
            ),
        ]

    def __str__(self) -> str:
        return f"quota of {self.tenant or self.project or self.key}"


QUOTA_FIELDS = (
    "requests_per_second",
    "burst",
    "requests_per_minute",
    "input_tokens_per_minute",
    "output_tokens_per_minute",
    "concurrent_calls",
    "context_tokens",
    "output_tokens",
    "end_user_requests_per_minute",
    "end_user_output_tokens_per_minute",
    "address_requests_per_minute",
    "identical_calls",
)


class Budget(ScopedModel):
    """What a scope may spend in a period of its tenant's calendar: money, tokens, or both."""

    amount = models.DecimalField(max_digits=20, decimal_places=6, null=True, blank=True)
    currency = models.CharField(max_length=3, blank=True, default="")
    tokens = models.PositiveBigIntegerField(null=True, blank=True)
    period = models.CharField(max_length=8, default="month")
    mode = models.CharField(max_length=8, default=BudgetMode.HARD, db_default=BudgetMode.HARD)

    class Meta:
        constraints = [
            _one_scope("budget_has_one_scope"),
            models.UniqueConstraint(
                fields=["tenant", "project", "key"], nulls_distinct=False, name="one_budget_a_scope"
            ),
        ]

    def __str__(self) -> str:
        money = [] if self.amount is None else [f"{self.amount} {self.currency}"]
        tokens = [] if self.tokens is None else [f"{self.tokens} tokens"]
        return f"{' and '.join([*money, *tokens])} a {self.period}"
