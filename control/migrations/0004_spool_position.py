from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("control", "0003_measures")]

    operations = [
        migrations.CreateModel(
            name="SpoolPosition",
            fields=[
                ("owner", models.CharField(max_length=190, primary_key=True, serialize=False)),
                ("segment", models.PositiveIntegerField()),
                ("offset", models.PositiveBigIntegerField()),
                ("at", models.DateTimeField()),
            ],
        ),
    ]
