"""What the operators' API answers: facts as JSON, one serializer for each noun."""

from rest_framework import serializers


class Named(serializers.DictField):
    """Pairs of name and value, as facts hold them."""

    def to_representation(self, value) -> dict:
        return dict(value)


class BudgetShape(serializers.Serializer):
    amount = serializers.DecimalField(max_digits=20, decimal_places=6, allow_null=True)
    currency = serializers.CharField()
    period = serializers.CharField()
    tokens = serializers.IntegerField(allow_null=True)
    mode = serializers.CharField()


class ProjectShape(serializers.Serializer):
    name = serializers.CharField()
    limits = Named(child=serializers.IntegerField())
    budget = BudgetShape(allow_null=True)
    devices_guaranteed = serializers.IntegerField()
    devices_maximum = serializers.IntegerField(allow_null=True)


class TenantShape(serializers.Serializer):
    name = serializers.CharField()
    priority = serializers.CharField()
    timezone = serializers.CharField()
    limits = Named(child=serializers.IntegerField())
    budget = BudgetShape(allow_null=True)
    prepaid = serializers.CharField(help_text="Currency of its credit; empty: it pays later")
    alert_url = serializers.CharField()
    projects = ProjectShape(many=True)
    keys_active = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    archived_at = serializers.DateTimeField(allow_null=True)


class KeyShape(serializers.Serializer):
    id = serializers.IntegerField()
    tenant = serializers.CharField()
    project = serializers.CharField()
    name = serializers.CharField()
    shown = serializers.CharField(help_text="First 3 and last 4 characters of the secret")
    state = serializers.CharField()
    routes = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="null is every route"
    )
    endpoints = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="null is every endpoint"
    )
    networks = serializers.ListField(
        child=serializers.CharField(), help_text="CIDR; none named is anywhere"
    )
    priority = serializers.CharField(help_text="Empty is its tenant's")
    limits = Named(child=serializers.IntegerField())
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    old_secret_until = serializers.DateTimeField(allow_null=True)


class NewKeyShape(serializers.Serializer):
    """The only answer with a secret in it."""

    id = serializers.IntegerField(source="key_id")
    secret = serializers.CharField(help_text="Shown now and never again")
    shown = serializers.CharField()


class ReplicaShape(serializers.Serializer):
    id = serializers.IntegerField()
    generation = serializers.IntegerField()
    node = serializers.CharField()
    state = serializers.CharField()
    reason = serializers.CharField()
    cause = serializers.CharField()
    phase = serializers.CharField()
    progress_percent = serializers.IntegerField()
    slots = serializers.IntegerField()
    calls = serializers.IntegerField(help_text="That it has served, counted each minute")
    host_memory_bytes = serializers.IntegerField(allow_null=True)
    devices = serializers.ListField(child=serializers.CharField())
    booked_bytes = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    state_at = serializers.DateTimeField()
    ready_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class BucketShape(serializers.Serializer):
    calls_per_second = serializers.FloatField(allow_null=True)
    tokens_per_second = serializers.FloatField(allow_null=True)
    burst_seconds = serializers.FloatField()


class RecycleShape(serializers.Serializer):
    calls = serializers.IntegerField(required=False)
    hours = serializers.FloatField(required=False)
    host_memory_growth = serializers.FloatField(
        required=False, help_text="Of its processes since it was ready: 0.5 is half as much again"
    )


class StandingShape(serializers.Serializer):
    state = serializers.CharField()
    reason = serializers.CharField()


class PlacementShape(serializers.Serializer):
    share = serializers.CharField()
    policy = serializers.CharField()
    anti_affinity = serializers.CharField()
    pool = serializers.CharField(help_text="Empty is any")
    devices = serializers.ListField(child=serializers.CharField(), help_text="Empty is any")


class ObjectiveShape(serializers.Serializer):
    ttft_ms = serializers.IntegerField(allow_null=True)
    tpot_ms = serializers.IntegerField(allow_null=True)


class ScheduleShape(serializers.Serializer):
    days = serializers.CharField()
    begins = serializers.CharField()
    ends = serializers.CharField()
    replicas = serializers.IntegerField()
    timezone = serializers.CharField()


class ScalingShape(serializers.Serializer):
    policy = serializers.CharField()
    queue_calls = serializers.IntegerField()
    grow_seconds = serializers.IntegerField()
    shrink_seconds = serializers.IntegerField()
    zero_seconds = serializers.IntegerField()
    schedules = ScheduleShape(many=True)
    sleep = serializers.IntegerField(
        help_text="Level at which the last replica sleeps instead of being stopped; 0 is off"
    )


class DeploymentShape(serializers.Serializer):
    name = serializers.CharField()
    model = serializers.CharField()
    version = serializers.CharField()
    engine_kind = serializers.CharField()
    engine_version = serializers.CharField()
    state = serializers.CharField()
    wanted = serializers.IntegerField()
    ready = serializers.IntegerField()
    replicas_min = serializers.IntegerField()
    replicas_max = serializers.IntegerField()
    node = serializers.CharField()
    bucket = BucketShape(allow_null=True)
    priority = serializers.CharField(source="placing.priority")
    project = serializers.CharField(
        source="placing.project", help_text="tenant/project; empty is none"
    )
    placement = PlacementShape(source="placing.placement")
    objective = ObjectiveShape(source="placing.objective", allow_null=True)
    recycle = RecycleShape(allow_null=True)
    allow_shorter_context = serializers.BooleanField()
    guarded_until = serializers.DateTimeField(
        allow_null=True, help_text="After an engine ran out of memory"
    )
    scaling = ScalingShape()
    note = serializers.CharField()
    standing = StandingShape()
    created_at = serializers.DateTimeField()
    replicas = ReplicaShape(many=True)


class LinkShape(serializers.Serializer):
    uuid = serializers.CharField(help_text="Of the other device")
    kind = serializers.CharField(help_text="nvlink, or the way over PCIe")


class DeviceShape(serializers.Serializer):
    uuid = serializers.CharField()
    index = serializers.IntegerField()
    kind = serializers.CharField()
    name = serializers.CharField()
    memory_total_bytes = serializers.IntegerField()
    memory_free_bytes = serializers.IntegerField(allow_null=True)
    foreign_bytes = serializers.IntegerField()
    booked_bytes = serializers.IntegerField()
    read_at = serializers.DateTimeField(allow_null=True)
    error = serializers.CharField()
    lost = serializers.BooleanField()
    foreign_pids = serializers.ListField(child=serializers.IntegerField())
    parent_uuid = serializers.CharField(help_text="The card that a MIG slice is part of")
    links = LinkShape(many=True)
    compute_capability = serializers.CharField()
    utilisation_ratio = serializers.FloatField(allow_null=True)
    power_watts = serializers.FloatField(allow_null=True)
    energy_joules = serializers.FloatField(allow_null=True)
    temperature_celsius = serializers.FloatField(allow_null=True)
    ecc_corrected = serializers.IntegerField(allow_null=True)
    ecc_uncorrected = serializers.IntegerField(allow_null=True)
    xid_errors = serializers.IntegerField()
    xid_last = serializers.IntegerField(allow_null=True)
    xid_at = serializers.DateTimeField(allow_null=True)
    quarantined_at = serializers.DateTimeField(allow_null=True)
    quarantine_reason = serializers.CharField()


class NodeShape(serializers.Serializer):
    name = serializers.CharField()
    address = serializers.CharField()
    state = serializers.CharField()
    standing = serializers.CharField(help_text="cordoned, draining, leaving, drained, or nothing")
    pool = serializers.CharField()
    labels = Named(child=serializers.CharField())
    driver = serializers.CharField()
    cordoned = serializers.BooleanField()
    draining = serializers.BooleanField()
    drained = serializers.BooleanField()
    leaving_by = serializers.DateTimeField(allow_null=True)
    leaving_reason = serializers.CharField()
    note = serializers.CharField()
    heartbeat_at = serializers.DateTimeField(allow_null=True)
    joined_at = serializers.DateTimeField()
    live_replicas = serializers.IntegerField()
    memory_total_bytes = serializers.IntegerField(allow_null=True, help_text="Of the host")
    memory_free_bytes = serializers.IntegerField(
        allow_null=True, help_text="Of a host with cards, lately"
    )
    memory_booked_bytes = serializers.IntegerField(help_text="Of the host, beside its cards")
    devices = DeviceShape(many=True)


class AmountShape(serializers.Serializer):
    currency = serializers.CharField()
    amount = serializers.CharField(source="text", help_text="Exact, never rounded")


class UsageShape(serializers.Serializer):
    group = serializers.ListField(child=serializers.CharField(allow_null=True))
    calls = serializers.IntegerField()
    input_tokens = serializers.IntegerField()
    cached_input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    reasoning_tokens = serializers.IntegerField()
    delivered_tokens = serializers.IntegerField()
    amounts = AmountShape(many=True)
