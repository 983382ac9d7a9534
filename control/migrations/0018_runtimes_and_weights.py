import control.states
import django.db.models.deletion
from django.db import migrations, models

IMMUTABLE = """
CREATE OR REPLACE FUNCTION weir_version_is_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.model_id, NEW.name, NEW.engine, NEW.source, NEW.arguments, NEW.memory, NEW.digest%s)
       IS DISTINCT FROM
       (OLD.model_id, OLD.name, OLD.engine, OLD.source, OLD.arguments, OLD.memory, OLD.digest%s) THEN
        RAISE EXCEPTION 'versions are immutable: name a new one'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('control', '0017_failures_and_cures'),
    ]

    operations = [
        migrations.AddField(
            model_name='node',
            name='cuda',
            field=models.CharField(blank=True, db_default='', default='', help_text='The newest of its driver', max_length=16),
        ),
        migrations.AddField(
            model_name='node',
            name='host',
            field=models.JSONField(blank=True, db_default={}, default=dict, help_text='glibc, Python, processor: as it says'),
        ),
        migrations.AddField(
            model_name='version',
            name='unsafe',
            field=models.JSONField(blank=True, help_text='pickle, trust_remote_code → why an owner allowed it', null=True),
        ),
        migrations.CreateModel(
            name='NodeRuntime',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('engine', models.CharField(max_length=32)),
                ('version', models.CharField(max_length=32)),
                ('device_kind', models.CharField(help_text='gpu or cpu: what it was built for', max_length=8)),
                ('state', models.CharField(default=control.states.FilesState['WANTED'], max_length=16)),
                ('percent', models.PositiveSmallIntegerField(default=0)),
                ('detail', models.TextField(blank=True, default='', help_text='What is done, or why it failed')),
                ('size_bytes', models.BigIntegerField(blank=True, null=True)),
                ('asked_by', models.CharField(blank=True, default='', max_length=128)),
                ('asked_at', models.DateTimeField(blank=True, null=True)),
                ('state_at', models.DateTimeField()),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runtimes', to='control.node')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('node', 'engine', 'version', 'device_kind'), name='one_runtime_a_node')],
            },
        ),
        migrations.CreateModel(
            name='NodeWeights',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='Its folder in the cache', max_length=200)),
                ('source', models.JSONField(default=dict)),
                ('unsafe', models.JSONField(blank=True, help_text='What an owner allowed of them', null=True)),
                ('engine', models.JSONField(default=dict, help_text='Whose Python converts them, if need be')),
                ('state', models.CharField(default=control.states.FilesState['WANTED'], max_length=16)),
                ('percent', models.PositiveSmallIntegerField(default=0)),
                ('detail', models.TextField(blank=True, default='', help_text='What is done, or why it failed')),
                ('size_bytes', models.BigIntegerField(blank=True, null=True)),
                ('held', models.BooleanField(default=False, help_text='A live replica uses them: they stay')),
                ('used_at', models.DateTimeField(blank=True, help_text='The oldest give way first', null=True)),
                ('asked_by', models.CharField(blank=True, default='', max_length=128)),
                ('asked_at', models.DateTimeField(blank=True, null=True)),
                ('state_at', models.DateTimeField()),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='weights', to='control.node')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('node', 'key'), name='one_copy_of_weights_a_node')],
            },
        ),
        migrations.RunSQL(
            IMMUTABLE % (", NEW.unsafe", ", OLD.unsafe"), IMMUTABLE % ("", "")
        ),
    ]
