"""What the operators' API answers about a route."""

from rest_framework import serializers

from console.api.shapes import BucketShape


def texts(**options) -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(), **options)


class TargetShape(serializers.Serializer):
    deployment = serializers.CharField()
    deployment_state = serializers.CharField()
    model = serializers.CharField()
    version = serializers.CharField()
    weight = serializers.IntegerField()
    ready_replicas = serializers.IntegerField()


class WeightShape(serializers.Serializer):
    deployment = serializers.CharField()
    weight = serializers.IntegerField()


class RuleShape(serializers.Serializer):
    """Where calls go that match all that it names."""

    tenants = texts()
    priorities = texts()
    input_tokens_min = serializers.IntegerField(allow_null=True)
    input_tokens_max = serializers.IntegerField(allow_null=True)
    hours = serializers.ListField(
        child=serializers.IntegerField(), allow_null=True, help_text="From, until; UTC"
    )
    header = texts(allow_null=True, help_text="Name, value")
    targets = WeightShape(many=True)


class ModerationShape(serializers.Serializer):
    url = serializers.CharField()
    before = serializers.BooleanField()
    after = serializers.BooleanField()
    timeout_ms = serializers.IntegerField()
    fail_open = serializers.BooleanField()


class RouteShape(serializers.Serializer):
    name = serializers.CharField()
    note = serializers.CharField()
    ready_replicas = serializers.IntegerField()
    targets = TargetShape(many=True)
    rules = RuleShape(many=True, source="wanted.rules")
    fallback = serializers.CharField(source="wanted.fallback", allow_null=True)
    policy = serializers.CharField(source="wanted.policy")
    on_replica_loss = serializers.CharField(source="wanted.on_replica_loss")
    priority = serializers.CharField(source="wanted.priority")
    stop = texts(source="wanted.stop")
    output_tokens_default = serializers.IntegerField(
        source="wanted.output_tokens_default", allow_null=True
    )
    output_tokens_max = serializers.IntegerField(source="wanted.output_tokens_max", allow_null=True)
    deadline_ms = serializers.IntegerField(source="wanted.deadline_ms", allow_null=True)
    waiting_seconds = serializers.FloatField(source="wanted.waiting_seconds", allow_null=True)
    cold_start_seconds = serializers.FloatField(source="wanted.cold_start_seconds", allow_null=True)
    commit_after_seconds = serializers.FloatField(
        source="wanted.commit_after_seconds", allow_null=True
    )
    progress = serializers.BooleanField(source="wanted.progress")
    shared_prefix = serializers.BooleanField(source="wanted.shared_prefix")
    media_hosts = texts(source="wanted.media_hosts")
    members = texts(source="wanted.members")
    bucket = BucketShape(source="wanted.bucket", allow_null=True)
    moderation = ModerationShape(source="wanted.moderation", allow_null=True)
    sample = serializers.FloatField(source="wanted.sample")
    created_at = serializers.DateTimeField()
    archived_at = serializers.DateTimeField(allow_null=True)
