import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("control", "0012_life_of_a_replica")]

    operations = [
        migrations.AddField(
            "deployment",
            "priority",
            models.CharField(default="standard", help_text="Interactive ones may displace batch", max_length=16),
        ),
        migrations.AddField(
            "deployment",
            "project",
            models.ForeignKey(
                blank=True,
                help_text="In whose device quota its replicas count",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="deployments",
                to="control.project",
            ),
        ),
        migrations.AddField(
            "deployment",
            "placement",
            models.JSONField(blank=True, default=dict, help_text="PlacementWanted, as named"),
        ),
        migrations.AddField(
            "deployment",
            "objective",
            models.JSONField(blank=True, help_text="What its calls should see: ttft_ms, tpot_ms", null=True),
        ),
        migrations.AddField(
            "project",
            "devices_guaranteed",
            models.PositiveIntegerField(default=0, help_text="Kept free for it"),
        ),
        migrations.AddField("project", "devices_maximum", models.PositiveIntegerField(blank=True, null=True)),
        migrations.AddField(
            "replica",
            "leaving",
            models.TextField(
                blank=True, default="", help_text="Why it is replaced: drained once its successor is ready"
            ),
        ),
    ]
