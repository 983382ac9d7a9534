"""Public names, and the compiled snapshot that gateways serve from."""

from django.db import connection, models

from control.models.deployment import Deployment
from control.states import Part, Priority, RoutingPolicy


class Route(models.Model):
    name = models.CharField(max_length=96, unique=True)
    stop = models.JSONField(default=list, blank=True, help_text="Default stop words")
    output_tokens_default = models.PositiveIntegerField(null=True, blank=True)
    output_tokens_max = models.PositiveIntegerField(null=True, blank=True)
    rules = models.JSONField(default=list, blank=True, help_text="The first that matches decides")
    fallback = models.ForeignKey(
        Deployment, models.PROTECT, null=True, blank=True, related_name="fallback_of"
    )
    policy = models.CharField(max_length=16, default=RoutingPolicy.LOAD_AWARE)
    on_replica_loss = models.CharField(max_length=8, default="continue")
    priority = models.CharField(max_length=16, default=Priority.INTERACTIVE)
    deadline_ms = models.PositiveIntegerField(null=True, blank=True)
    waiting_seconds = models.FloatField(null=True, blank=True)
    cold_start_seconds = models.FloatField(null=True, blank=True)
    commit_after_seconds = models.FloatField(null=True, blank=True)
    progress = models.BooleanField(default=False)
    shared_prefix = models.BooleanField(default=False)
    media_hosts = models.JSONField(default=list, blank=True)
    members = models.JSONField(default=list, blank=True, help_text="Of a body, beyond the table's")
    bucket = models.JSONField(null=True, blank=True)
    moderation = models.JSONField(null=True, blank=True)
    sample = models.FloatField(default=0.01, help_text="Share of calls whose trace is kept")
    note = models.TextField(blank=True, default="", help_text="What callers should know")
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Target(models.Model):
    route = models.ForeignKey(Route, models.CASCADE, related_name="targets")
    deployment = models.ForeignKey(Deployment, models.PROTECT, related_name="targets")
    weight = models.PositiveSmallIntegerField(default=100)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["route", "deployment"], name="one_target_a_deployment")
        ]

    def __str__(self) -> str:
        return f"{self.route} -> {self.deployment} ({self.weight})"


class SnapshotPart(models.Model):
    """One part of what gateways know: `version` of the tables, `built` of what is compiled."""

    part = models.CharField(max_length=16, primary_key=True)
    version = models.BigIntegerField(default=1)
    built = models.BigIntegerField(default=0)
    payload = models.BinaryField(default=bytes)
    built_at = models.DateTimeField(null=True, blank=True)

    CHANNEL_STALE = "weir_snapshot_stale"  # heard by the builder, and by gateways without one
    CHANNEL_BUILT = "weir_snapshot_built"  # heard by gateways
    CHANNEL_REVOKED = "weir_key_revoked"  # heard by gateways

    def __str__(self) -> str:
        return f"{self.part} v{self.version} (built {self.built})"

    @classmethod
    def raise_version(cls, part: Part) -> int:
        """Call inside the transaction that changed what the part is made of.

        Returns the version that holds the change, once the transaction is over: whoever serves
        by it, or by a later one, knows.
        """
        with connection.cursor() as cursor:
            cursor.execute(_RAISE, [str(part)])
            version = cursor.fetchone()
            cursor.execute("SELECT pg_notify(%s, %s)", [cls.CHANNEL_STALE, str(part)])
        return version[0] if version else 0

    @classmethod
    def tell_revoked(cls, key_id: int, version: int) -> None:
        """Gateways take the key out of what they know, before the part is compiled again.

        `version` of identities knows of it.
        """
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [cls.CHANNEL_REVOKED, f"{version} {key_id}"])


_RAISE = "UPDATE control_snapshotpart SET version = version + 1 WHERE part = %s RETURNING version"


class GatewayProcess(models.Model):
    """One that serves, and by which version of the replicas: what a drain waits for.

    Times are of the database's clock. A row of a process that is gone grows old, and is removed
    by the others.
    """

    owner = models.CharField(max_length=128, primary_key=True)
    replicas_version = models.BigIntegerField(default=0)
    calls = models.JSONField(default=dict, help_text="By replica, of those that drain")
    refused = models.JSONField(
        null=True, blank=True, help_text="Prompts that two engines died of, and until when"
    )
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.owner} at v{self.replicas_version}"
