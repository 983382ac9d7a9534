from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("control", "0005_usage_by_start")]

    operations = [
        migrations.AddField(
            model_name="node",
            name="state_at",
            field=models.DateTimeField(blank=True, help_text="A silence counts from when it was noticed", null=True),
        ),
    ]
