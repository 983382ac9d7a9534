"""Attempts at engines, engines' own counters, and what neither explains."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('control', '0020_sizes_of_deployments'),
    ]

    operations = [
        migrations.CreateModel(
            name='Attempt',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('call_id', models.CharField(max_length=40)),
                ('number', models.PositiveSmallIntegerField(help_text='From 1, in the order they were begun')),
                ('replica_id', models.BigIntegerField()),
                ('purpose', models.CharField(max_length=16)),
                ('input_tokens', models.PositiveBigIntegerField(default=0)),
                ('output_tokens', models.PositiveBigIntegerField(default=0)),
                ('tokens_source', models.CharField(max_length=16)),
                ('cut', models.BooleanField(default=False, help_text='The engine may have gone on unseen')),
                ('outcome', models.CharField(help_text='Or the code of why it was given up', max_length=64)),
                ('started_at', models.DateTimeField()),
                ('first_token_at', models.DateTimeField(blank=True, null=True)),
                ('ended_at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['replica_id', 'started_at'], name='attempts_of_a_replica'), models.Index(fields=['started_at'], name='attempts_by_start')],
                'constraints': [models.UniqueConstraint(fields=('call_id', 'number'), name='one_row_an_attempt')],
            },
        ),
        migrations.CreateModel(
            name='Drift',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('begin_at', models.DateTimeField()),
                ('end_at', models.DateTimeField()),
                ('engine_input_tokens', models.PositiveBigIntegerField()),
                ('engine_output_tokens', models.PositiveBigIntegerField()),
                ('input_tokens', models.PositiveBigIntegerField(help_text='Of the attempts, as they are told')),
                ('output_tokens', models.PositiveBigIntegerField()),
                ('input_tokens_min', models.PositiveBigIntegerField(help_text='That the attempts can explain')),
                ('input_tokens_max', models.PositiveBigIntegerField()),
                ('output_tokens_min', models.PositiveBigIntegerField()),
                ('output_tokens_max', models.PositiveBigIntegerField()),
                ('unexplained_input_tokens', models.BigIntegerField(help_text="Engine's less the attempts'")),
                ('unexplained_output_tokens', models.BigIntegerField()),
                ('attempts', models.PositiveBigIntegerField(default=0)),
                ('cut_attempts', models.PositiveBigIntegerField(default=0)),
                ('is_incident', models.BooleanField(default=False)),
                ('calls', models.JSONField(default=list, help_text='Of an incident: where to look first')),
                ('judged_at', models.DateTimeField()),
                ('closed_at', models.DateTimeField(blank=True, null=True)),
                ('closed_by', models.CharField(blank=True, default='', max_length=128)),
                ('closed_reason', models.TextField(blank=True, default='')),
                ('replica', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='drifts', to='control.replica')),
            ],
            options={
                'indexes': [models.Index(fields=['hour'], name='drift_by_hour'), models.Index(condition=models.Q(('closed_at', None), ('is_incident', True)), fields=['hour'], name='open_drift_incidents')],
                'constraints': [models.UniqueConstraint(fields=('replica', 'begin_at'), name='one_drift_an_hour')],
            },
        ),
        migrations.CreateModel(
            name='EngineCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('counted_from', models.DateTimeField(help_text='When they stood at zero')),
                ('read_at', models.DateTimeField()),
                ('prompt_tokens', models.PositiveBigIntegerField()),
                ('generation_tokens', models.PositiveBigIntegerField()),
                ('token_seconds_sum', models.FloatField(default=0, help_text='Between tokens of one call')),
                ('token_gaps', models.PositiveBigIntegerField(default=0)),
                ('replica', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='counts', to='control.replica')),
            ],
            options={
                'indexes': [models.Index(fields=['hour'], name='counts_by_hour')],
                'constraints': [models.UniqueConstraint(fields=('replica', 'counted_from', 'hour'), name='one_count_an_hour')],
            },
        ),
    ]
