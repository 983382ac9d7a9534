import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('control', '0016_rooms_of_replicas'),
    ]

    operations = [
        migrations.AddField(
            model_name='deployment',
            name='allow_shorter_context',
            field=models.BooleanField(db_default=False, default=False, help_text='A launch whose KV cache is too small may serve what fits'),
        ),
        migrations.AddField(
            model_name='deployment',
            name='guarded_since',
            field=models.DateTimeField(blank=True, help_text='It ran out of memory while it served', null=True),
        ),
        migrations.AddField(
            model_name='deployment',
            name='guarded_until',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='deployment',
            name='retry_at',
            field=models.DateTimeField(blank=True, help_text='Launches that failed before it count no longer', null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='ecc_accepted',
            field=models.BigIntegerField(db_default=0, default=0, help_text='Uncorrected errors known when it was released'),
        ),
        migrations.AddField(
            model_name='device',
            name='released_at',
            field=models.DateTimeField(blank=True, help_text='From quarantine, by a person: older signs count no longer', null=True),
        ),
        migrations.CreateModel(
            name='Override',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('cause', models.CharField(max_length=64)),
                ('changes', models.JSONField(help_text='Changes, as named: arguments, memory, devices, host')),
                ('reason', models.TextField()),
                ('created_at', models.DateTimeField()),
                ('dropped_at', models.DateTimeField(blank=True, null=True)),
                ('deployment', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='overrides', to='control.deployment')),
                ('node', models.ForeignKey(blank=True, help_text='Of a limit that holds for a whole host', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='overrides', to='control.node')),
                ('replica', models.OneToOneField(blank=True, help_text='Whose failure it cures: one failure is cured once', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='override', to='control.replica')),
                ('version', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='overrides', to='control.version')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('dropped_at', None)), fields=['deployment', 'version'], name='overrides_in_force')],
            },
        ),
    ]
