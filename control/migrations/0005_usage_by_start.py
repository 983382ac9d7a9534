from django.db import migrations, models


class Migration(migrations.Migration):
    """Exports and sums go by the instant a call started, as its price and its id do."""

    dependencies = [("control", "0004_spool_position")]

    operations = [
        migrations.RemoveIndex(model_name="usageevent", name="usage_by_end"),
        migrations.RemoveIndex(model_name="usageevent", name="usage_by_version"),
        migrations.AddIndex(
            model_name="usageevent",
            index=models.Index(fields=["started_at", "id"], name="usage_by_start"),
        ),
        migrations.AddIndex(
            model_name="usageevent",
            index=models.Index(fields=["version", "started_at"], name="usage_by_version"),
        ),
    ]
