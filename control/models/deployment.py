"""Desired state: which version is wanted, how many times."""

from django.db import models

from control.models.catalog import Version
from control.models.tenancy import Project
from control.states import DeploymentState, Priority


class Deployment(models.Model):
    name = models.SlugField(max_length=63, unique=True)
    version = models.ForeignKey(Version, models.PROTECT, related_name="deployments")
    replicas_min = models.PositiveSmallIntegerField(default=1)
    replicas_max = models.PositiveSmallIntegerField(default=1)
    replicas_wanted = models.PositiveSmallIntegerField(default=1)
    priority = models.CharField(
        max_length=16, default=Priority.STANDARD, help_text="Interactive ones may displace batch"
    )
    project = models.ForeignKey(
        Project,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="deployments",
        help_text="In whose device quota its replicas count",
    )
    placement = models.JSONField(default=dict, blank=True, help_text="PlacementWanted, as named")
    objective = models.JSONField(
        null=True, blank=True, help_text="What its calls should see: ttft_ms, tpot_ms"
    )
    node = models.CharField(max_length=63, blank=True, default="", help_text="Pin, by node name")
    bucket = models.JSONField(null=True, blank=True, help_text="What may be asked of it a second")
    scaling = models.JSONField(default=dict, blank=True, help_text="How it grows and shrinks")
    recycle = models.JSONField(null=True, blank=True, help_text="When a replica is replaced anew")
    state = models.CharField(max_length=16, default=DeploymentState.ACTIVE)
    note = models.TextField(blank=True, default="", help_text="What reconcile last said about it")
    hindrance = models.CharField(
        max_length=16, blank=True, default="", help_text="To those who wait for it"
    )
    hindered_at = models.DateTimeField(
        null=True, blank=True, help_text="Since when, of a hindrance that is there"
    )
    hindrance_cause = models.CharField(
        max_length=64, blank=True, default="", help_text="Of its last failed launch"
    )
    launch_after = models.DateTimeField(
        null=True, blank=True, help_text="Back-off: no launch before this instant"
    )
    allow_shorter_context = models.BooleanField(
        default=False,
        db_default=False,
        help_text="A launch whose KV cache is too small may serve what fits",
    )
    retry_at = models.DateTimeField(
        null=True, blank=True, help_text="Launches that failed before it count no longer"
    )
    guarded_since = models.DateTimeField(
        null=True, blank=True, help_text="It ran out of memory while it served"
    )
    guarded_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class ScalingState(models.Model):
    """What autoscaling remembers of a deployment between two looks, and what it last said."""

    deployment = models.OneToOneField(Deployment, models.CASCADE, related_name="scaling_state")
    version = models.ForeignKey(
        Version, models.PROTECT, help_text="Wanted at the last look; another one is news"
    )
    busy_since = models.DateTimeField(null=True, blank=True)
    idle_since = models.DateTimeField(null=True, blank=True)
    late_since = models.DateTimeField(null=True, blank=True)
    quiet_since = models.DateTimeField(null=True, blank=True)
    shrank_at = models.DateTimeField(null=True, blank=True)
    held_until = models.DateTimeField(null=True, blank=True)
    signs = models.JSONField(default=dict, help_text="As they were at the last look")
    reason = models.TextField(blank=True, default="", help_text="Of the last change")
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.deployment}: {self.reason}"
