"""Versions of price books; rows of them by priority and tier; volumes. Books never change."""

import django.db.models.deletion
from django.db import migrations, models


IMMUTABLE = ["control_price", "control_pricebook"]


def append_only(table: str) -> str:
    return f"""
CREATE TRIGGER {table}_rows_stay BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION weir_refuse_change();
CREATE TRIGGER {table}_stays BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION weir_refuse_change();
"""


class Migration(migrations.Migration):

    dependencies = [
        ('control', '0023_device_time_and_cost'),
    ]

    operations = [
        migrations.AddField(
            model_name='price',
            name='priority',
            field=models.CharField(blank=True, db_default='', default='', help_text='Empty is every other one', max_length=16),
        ),
        migrations.AddField(
            model_name='price',
            name='reasoning_pico',
            field=models.BigIntegerField(blank=True, help_text='As output, if null', null=True),
        ),
        migrations.AddField(
            model_name='price',
            name='tier_from_tokens',
            field=models.BigIntegerField(db_default=0, default=0, help_text="Of its tenant's month, with this model"),
        ),
        migrations.AlterField(
            model_name='price',
            name='valid_from',
            field=models.DateTimeField(help_text="As its book's"),
        ),
        migrations.CreateModel(
            name='PriceBook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.PositiveIntegerField()),
                ('currency', models.CharField(max_length=3)),
                ('interrupted', models.CharField(default='generated', help_text='One of states.Interrupted', max_length=16)),
                ('step_pico', models.BigIntegerField(help_text='Proposed prices are whole multiples of it')),
                ('withdrawn', models.BooleanField(default=False, help_text="It has no rows: from then on everyone's book holds")),
                ('valid_from', models.DateTimeField()),
                ('valid_until', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField()),
                ('created_by', models.CharField(max_length=128)),
                ('reason', models.TextField(blank=True, default='')),
                ('below_cost_reason', models.TextField(blank=True, default='')),
                ('cost', models.JSONField(blank=True, help_text='Known when it was saved', null=True)),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='price_books', to='control.catalogmodel')),
                ('tenant', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='price_books', to='control.tenant')),
            ],
        ),
        migrations.AddField(
            model_name='price',
            name='book',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='rows', to='control.pricebook'),
        ),
        migrations.CreateModel(
            name='PriceVolume',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('begins_at', models.DateTimeField()),
                ('tokens', models.BigIntegerField(default=0)),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='control.catalogmodel')),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='control.tenant')),
            ],
        ),
        migrations.AddConstraint(
            model_name='pricebook',
            constraint=models.UniqueConstraint(fields=('model', 'tenant', 'version'), name='one_version_of_a_price_book', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='pricebook',
            constraint=models.CheckConstraint(condition=models.Q(('valid_until', None), ('valid_until__gt', models.F('valid_from')), _connector='OR'), name='price_book_ends_after_it_begins'),
        ),
        migrations.AddConstraint(
            model_name='pricevolume',
            constraint=models.UniqueConstraint(fields=('tenant', 'model', 'begins_at'), name='one_volume_a_month'),
        ),
        *[migrations.RunSQL(append_only(table)) for table in IMMUTABLE],
    ]
