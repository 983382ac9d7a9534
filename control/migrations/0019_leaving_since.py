from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("control", "0018_runtimes_and_weights"),
    ]

    operations = [
        migrations.AddField(
            model_name='node',
            name='leaving_since',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
