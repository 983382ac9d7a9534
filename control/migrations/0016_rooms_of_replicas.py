from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("control", "0015_calls_of_draining_replicas")]

    operations = [
        migrations.AddField(
            "replica",
            "room",
            models.CharField(
                blank=True, default="", help_text="How its memory was given: own, shared, ram", max_length=8
            ),
        ),
        migrations.AddField(
            "replica",
            "kv_bytes",
            models.BigIntegerField(blank=True, help_text="KV cache that was placed, on each device", null=True),
        ),
    ]
