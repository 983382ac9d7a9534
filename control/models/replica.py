"""Observed state: a replica is one launch of one engine, and moves in one place only."""

from django.db import models, transaction

from control.models.catalog import Version
from control.models.deployment import Deployment
from control.models.fleet import IllegalMove, Node
from control.models.routes import SnapshotPart
from control.states import REPLICA_FINAL, REPLICA_MOVES, Part, ReplicaState

REASON_CHARACTERS_MAX = 2000


class Replica(models.Model):
    deployment = models.ForeignKey(Deployment, models.PROTECT, related_name="replicas")
    version = models.ForeignKey(
        Version,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="replicas",
        help_text="What was launched; the deployment may want another by now",
    )
    generation = models.PositiveIntegerField(help_text="Fencing: rises with each launch")
    node = models.ForeignKey(Node, models.PROTECT, null=True, blank=True, related_name="replicas")
    state = models.CharField(max_length=16, default=ReplicaState.PENDING)
    reason = models.TextField(blank=True, default="", help_text="Why it is in this state")
    cause = models.CharField(max_length=64, blank=True, default="", help_text="Of a failure")
    retry = models.BooleanField(default=True, help_text="Whether a failure may pass by itself")
    leaving = models.TextField(
        blank=True, default="", help_text="Why it is replaced: drained once its successor is ready"
    )
    phase = models.CharField(max_length=64, blank=True, default="")
    progress_percent = models.PositiveSmallIntegerField(default=0)
    host = models.CharField(max_length=255, blank=True, default="")
    port = models.PositiveIntegerField(null=True, blank=True)
    pid = models.PositiveIntegerField(null=True, blank=True)
    engine_key = models.BinaryField(null=True, blank=True, help_text="Fernet")
    slots = models.PositiveIntegerField(default=0, help_text="Calls at once")
    room = models.CharField(
        max_length=8, blank=True, default="", help_text="How its memory was given: own, shared, ram"
    )
    kv_bytes = models.BigIntegerField(
        null=True, blank=True, help_text="KV cache that was placed, on each device"
    )
    host_booked_bytes = models.BigIntegerField(
        default=0, db_default=0, help_text="Of its host's RAM, for weights its cards do not hold"
    )
    kv_tokens = models.PositiveBigIntegerField(null=True, blank=True)
    calls = models.PositiveBigIntegerField(
        default=0, db_default=0, help_text="That it has served, lately counted"
    )
    host_memory_bytes = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="Of its processes' own pages, lately read"
    )
    host_memory_ready_bytes = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="The same, soon after it was ready"
    )
    log_tail = models.TextField(blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    state_at = models.DateTimeField(auto_now_add=True)
    progress_at = models.DateTimeField(null=True, blank=True)
    ready_at = models.DateTimeField(null=True, blank=True)
    drain_by = models.DateTimeField(null=True, blank=True)
    unrouted_version = models.BigIntegerField(
        null=True, blank=True, help_text="Of the replicas' part: the first that sends it no call"
    )
    sleep_level = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="That it falls asleep to, once drained; 0: it is stopped"
    )
    awake = models.JSONField(
        null=True, blank=True, help_text="What it held before it slept, to be held again"
    )
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["deployment", "generation"], name="one_launch_a_generation"
            ),
            models.UniqueConstraint(
                fields=["node", "port"],
                condition=~models.Q(state__in=[str(state) for state in sorted(REPLICA_FINAL)]),
                name="one_live_replica_a_port",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.deployment}#{self.generation}"

    def move(self, to: ReplicaState, *, reason: str, by: str, at, **fields) -> bool:
        """Change state, or return False if another worker changed it first.

        `fields` are columns written in the same statement (address, slots, cause, drain_by).
        Raises the version of the gateway's replicas part in the same transaction.
        """
        old = ReplicaState(self.state)
        if to not in REPLICA_MOVES[old]:
            raise IllegalMove(f"{self}: {old} -> {to}: {reason}")
        written = {"state": to, "reason": reason[:REASON_CHARACTERS_MAX], "state_at": at}
        written |= _of_its_drain(to) | fields
        if to is ReplicaState.READY and self.ready_at is None:
            written["ready_at"] = at
        if to in REPLICA_FINAL:
            written["ended_at"] = at
        with transaction.atomic():
            if not Replica.objects.filter(pk=self.pk, state=old).update(**written):
                return False
            StateChange.objects.create(
                replica=self, old=old, new=to, reason=written["reason"], by=by, at=at
            )
            version = SnapshotPart.raise_version(Part.REPLICAS)
            if to is ReplicaState.DRAINING:
                written["unrouted_version"] = version
                Replica.objects.filter(pk=self.pk).update(unrouted_version=version)
        for name, value in written.items():
            setattr(self, name, value)
        return True


def _of_its_drain(to: ReplicaState) -> dict:
    """What an earlier drain left behind, which a node that was lost may have cut off."""
    if to is ReplicaState.DRAINING:
        return {"drain_by": None, "sleep_level": 0}  # a drain for another reason ends these
    serves_on = to is not ReplicaState.LOST and to not in REPLICA_FINAL
    return {"drain_by": None, "unrouted_version": None} if serves_on else {}


class StateChange(models.Model):
    replica = models.ForeignKey(Replica, models.CASCADE, related_name="changes")
    old = models.CharField(max_length=16)
    new = models.CharField(max_length=16)
    reason = models.TextField()
    by = models.CharField(max_length=128)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.replica}: {self.old} -> {self.new}"
