"""Machines: nodes, their devices, and the ledger of device memory."""

from datetime import datetime

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import BigIntegerRangeField, RangeOperators
from django.db import models

from control.states import NODE_MOVES, NodeState, ReservationState

POOL_DEFAULT = "default"
PREEMPTIBLE = "preemptible"  # the label


class IllegalMove(Exception):
    """The state machine has no such move."""


class Node(models.Model):
    name = models.SlugField(max_length=63, unique=True)
    identity = models.CharField(max_length=255, help_text="Machine id + WEIR_HOME of the claimant")
    address = models.GenericIPAddressField(default="127.0.0.1")
    state = models.CharField(max_length=16, default=NodeState.READY)
    state_at = models.DateTimeField(
        null=True, blank=True, help_text="A silence counts from when it was noticed"
    )
    cordoned = models.BooleanField(default=False)
    draining = models.BooleanField(
        default=False, help_text="Its replicas move away; drained when none is left"
    )
    leaving_by = models.DateTimeField(
        null=True, blank=True, help_text="The host goes at this instant: drained by then"
    )
    leaving_since = models.DateTimeField(null=True, blank=True)
    leaving_reason = models.TextField(blank=True, default="", help_text="Why it drains or leaves")
    pool = models.SlugField(max_length=63, default=POOL_DEFAULT, help_text="Set by operators")
    labels = models.JSONField(default=dict, blank=True, help_text="Name → value, by operators")
    driver = models.CharField(max_length=64, blank=True, default="", help_text="Of its cards")
    cuda = models.CharField(
        max_length=16, blank=True, default="", db_default="", help_text="The newest of its driver"
    )
    host = models.JSONField(
        default=dict, db_default={}, blank=True, help_text="glibc, Python, processor: as it says"
    )
    memory_free_bytes = models.BigIntegerField(
        null=True, blank=True, help_text="Of the RAM of a host with cards"
    )
    memory_read_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    note = models.TextField(blank=True, default="", help_text="Why its state is what it is")
    joined_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name

    @property
    def is_preemptible(self) -> bool:
        """Whether its host can be taken away at any moment, as an operator says."""
        value = self.labels.get(PREEMPTIBLE)
        return value is not None and str(value).lower() not in ("false", "no", "0")

    def move(self, to: NodeState, *, reason: str, at: datetime) -> bool:
        """Change state, or return False if another worker changed it first.

        `at` may be an expression of the database's clock, by which silences are told.
        """
        old = NodeState(self.state)
        if to not in NODE_MOVES[old]:
            raise IllegalMove(f"node {self}: {old} -> {to}: {reason}")
        written = {"state": to, "state_at": at, "note": reason}
        if not Node.objects.filter(pk=self.pk, state=old).update(**written):
            return False
        self.state, self.state_at, self.note = to, at, reason
        return True


class Device(models.Model):
    """A GPU, or a host's RAM; the uuid is the driver's, or `cpu-<node>`."""

    node = models.ForeignKey(Node, models.CASCADE, related_name="devices")
    uuid = models.CharField(max_length=96, unique=True)
    index = models.PositiveSmallIntegerField(default=0)
    kind = models.CharField(max_length=8, help_text="gpu or cpu")
    name = models.CharField(max_length=128)
    memory_total_bytes = models.BigIntegerField()
    memory_free_bytes = models.BigIntegerField(null=True, blank=True)
    foreign_bytes = models.BigIntegerField(default=0, help_text="Held by processes not ours")
    foreign_pids = models.JSONField(default=list, blank=True, help_text="Processes not ours")
    read_at = models.DateTimeField(null=True, blank=True)
    error = models.TextField(blank=True, default="", help_text="Why the last reading failed")
    lost = models.BooleanField(default=False, help_text="The driver says that it is lost")
    parent_uuid = models.CharField(
        max_length=96, blank=True, default="", help_text="The card that a MIG slice is part of"
    )
    links = models.JSONField(
        default=list, blank=True, help_text="To devices of its node: [{uuid, kind}]"
    )
    compute_capability = models.CharField(max_length=16, blank=True, default="")
    # Null: the driver does not say. Never zero for that.
    utilisation_ratio = models.FloatField(null=True, blank=True)
    power_watts = models.FloatField(null=True, blank=True)
    energy_joules = models.FloatField(null=True, blank=True, help_text="Since its driver started")
    temperature_celsius = models.FloatField(null=True, blank=True)
    ecc_corrected = models.BigIntegerField(null=True, blank=True)
    ecc_uncorrected = models.BigIntegerField(
        null=True, blank=True, help_text="Since its driver started"
    )
    xid_errors = models.PositiveIntegerField(default=0, help_text="Counted since it joined")
    xid_last = models.PositiveIntegerField(null=True, blank=True)
    xid_at = models.DateTimeField(null=True, blank=True)
    quarantined_at = models.DateTimeField(null=True, blank=True)
    quarantine_reason = models.TextField(blank=True, default="")
    ecc_accepted = models.BigIntegerField(
        default=0, db_default=0, help_text="Uncorrected errors known when it was released"
    )
    released_at = models.DateTimeField(
        null=True, blank=True, help_text="From quarantine, by a person: older signs count no longer"
    )

    def __str__(self) -> str:
        return f"{self.node}/{self.name}"


class Reservation(models.Model):
    """Bytes [lower, upper) of a device's memory that one launch has set aside.

    A launch may hold several ranges, so gaps never make free memory unusable. Two held ranges of
    one device cannot overlap (exclusion constraint) and none may pass the device's end (trigger).
    """

    device = models.ForeignKey(Device, models.PROTECT, related_name="reservations")
    replica = models.ForeignKey("Replica", models.PROTECT, related_name="reservations")
    memory = BigIntegerRangeField()
    state = models.CharField(max_length=16, default=ReservationState.HELD)
    created_at = models.DateTimeField(auto_now_add=True)
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            ExclusionConstraint(
                name="device_memory_is_booked_once",
                expressions=[
                    ("device", RangeOperators.EQUAL),
                    ("memory", RangeOperators.OVERLAPS),
                ],
                condition=models.Q(state=ReservationState.HELD),
            )
        ]

    def __str__(self) -> str:
        return f"{self.memory_bytes} bytes of {self.device} for {self.replica}"

    @property
    def memory_bytes(self) -> int:
        return self.memory.upper - self.memory.lower
