import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("control", "0002_the_database_defends_itself")]

    operations = [
        migrations.CreateModel(
            name="VersionMeasure",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("weights_bytes", models.BigIntegerField()),
                ("kv_cost", models.JSONField(help_text="Bytes of KV cache by kind of layer")),
                ("measured_at", models.DateTimeField()),
                ("version", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name="measure", to="control.version")),
            ],
        ),
        migrations.AddField(
            model_name="replica",
            name="version",
            field=models.ForeignKey(blank=True, help_text="What was launched; the deployment may want another by now", null=True, on_delete=django.db.models.deletion.PROTECT, related_name="replicas", to="control.version"),
        ),
        migrations.AddField(
            model_name="replica",
            name="retry",
            field=models.BooleanField(default=True, help_text="Whether a failure may pass by itself"),
        ),
    ]
