from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("control", "0013_where_replicas_go"),
    ]

    operations = [
        migrations.AddField(
            model_name='device',
            name='compute_capability',
            field=models.CharField(blank=True, default='', max_length=16),
        ),
        migrations.AddField(
            model_name='device',
            name='ecc_corrected',
            field=models.BigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='ecc_uncorrected',
            field=models.BigIntegerField(blank=True, help_text='Since its driver started', null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='energy_joules',
            field=models.FloatField(blank=True, help_text='Since its driver started', null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='foreign_pids',
            field=models.JSONField(blank=True, default=list, help_text='Processes not ours'),
        ),
        migrations.AddField(
            model_name='device',
            name='links',
            field=models.JSONField(blank=True, default=list, help_text='To devices of its node: [{uuid, kind}]'),
        ),
        migrations.AddField(
            model_name='device',
            name='lost',
            field=models.BooleanField(default=False, help_text='The driver says that it is lost'),
        ),
        migrations.AddField(
            model_name='device',
            name='parent_uuid',
            field=models.CharField(blank=True, default='', help_text='The card that a MIG slice is part of', max_length=96),
        ),
        migrations.AddField(
            model_name='device',
            name='power_watts',
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='quarantine_reason',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AddField(
            model_name='device',
            name='quarantined_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='temperature_celsius',
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='utilisation_ratio',
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='xid_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='device',
            name='xid_errors',
            field=models.PositiveIntegerField(default=0, help_text='Counted since it joined'),
        ),
        migrations.AddField(
            model_name='device',
            name='xid_last',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='draining',
            field=models.BooleanField(default=False, help_text='Its replicas move away; drained when none is left'),
        ),
        migrations.AddField(
            model_name='node',
            name='driver',
            field=models.CharField(blank=True, default='', help_text='Of its cards', max_length=64),
        ),
        migrations.AddField(
            model_name='node',
            name='leaving_by',
            field=models.DateTimeField(blank=True, help_text='The host goes at this instant: drained by then', null=True),
        ),
        migrations.AddField(
            model_name='node',
            name='leaving_reason',
            field=models.TextField(blank=True, default='', help_text='Why it drains or leaves'),
        ),
        migrations.AddField(
            model_name='node',
            name='pool',
            field=models.SlugField(default='default', help_text='Set by operators', max_length=63),
        ),
        migrations.AlterField(
            model_name='node',
            name='labels',
            field=models.JSONField(blank=True, default=dict, help_text='Name → value, by operators'),
        ),
    ]
