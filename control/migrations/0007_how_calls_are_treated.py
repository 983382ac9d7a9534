import django.db.models.deletion
from django.db import migrations, models

COUNT = {"blank": True, "null": True}


class Migration(migrations.Migration):

    dependencies = [("control", "0006_node_state_at")]

    operations = [
        *(
            migrations.AddField("route", name, field)
            for name, field in (
                ("rules", models.JSONField(blank=True, default=list, help_text="The first that matches decides")),
                (
                    "fallback",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="fallback_of",
                        to="control.deployment",
                    ),
                ),
                ("policy", models.CharField(default="load_aware", max_length=16)),
                ("on_replica_loss", models.CharField(default="continue", max_length=8)),
                ("priority", models.CharField(default="interactive", max_length=16)),
                ("deadline_ms", models.PositiveIntegerField(**COUNT)),
                ("waiting_seconds", models.FloatField(**COUNT)),
                ("cold_start_seconds", models.FloatField(**COUNT)),
                ("commit_after_seconds", models.FloatField(**COUNT)),
                ("progress", models.BooleanField(default=False)),
                ("shared_prefix", models.BooleanField(default=False)),
                ("media_hosts", models.JSONField(blank=True, default=list)),
                ("members", models.JSONField(blank=True, default=list, help_text="Of a body, beyond the table's")),
                ("bucket", models.JSONField(**COUNT)),
                ("moderation", models.JSONField(**COUNT)),
                ("sample", models.FloatField(default=0.01, help_text="Share of calls whose trace is kept")),
            )
        ),
        migrations.AddField(
            "deployment",
            "bucket",
            models.JSONField(**COUNT, help_text="What may be asked of it a second"),
        ),
        migrations.AddField("key", "endpoints", models.JSONField(**COUNT, help_text="Null is every endpoint")),
        migrations.AddField(
            "key", "networks", models.JSONField(blank=True, default=list, help_text="CIDR; none named is anywhere")
        ),
        migrations.AddField(
            "key",
            "priority",
            models.CharField(blank=True, default="", help_text="The most urgent of its calls", max_length=16),
        ),
        migrations.AddField("quota", "end_user_requests_per_minute", models.PositiveIntegerField(**COUNT)),
        migrations.AddField("quota", "end_user_output_tokens_per_minute", models.PositiveBigIntegerField(**COUNT)),
        migrations.AddField("quota", "address_requests_per_minute", models.PositiveIntegerField(**COUNT)),
        migrations.AddField(
            "quota", "identical_calls", models.PositiveIntegerField(**COUNT, help_text="In flight at once, of one key")
        ),
        # What gateways know has new members: every part is compiled anew.
        migrations.RunSQL("UPDATE control_snapshotpart SET version = version + 1 WHERE built > 0", migrations.RunSQL.noop),
    ]
