"""Usage events in one partition a month, each with its guard; their sums by the hour.

An older release cannot store into the new table: what its gateways write waits in their spools.
"""

import datetime
import django.db.models.deletion
from django.db import migrations, models


# The month that a call's id tells: of a UUIDv7, those of this century; of others none. The same
# for ever, or one call could be in two partitions. metering.months says it again.
MONTH_OF = """
CREATE FUNCTION weir_usage_month(call_id text) RETURNS date LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN call_id ~ '^req_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$'
                 AND substr(call_id, 5, 12) COLLATE "C" >= '016f5e66e800'
                 AND substr(call_id, 5, 12) COLLATE "C" < '03bb2cc3d800'
        THEN date_trunc('month', to_timestamp(
            ('x' || substr(call_id, 5, 12))::bit(48)::bigint / 1000) AT TIME ZONE 'UTC')::date
        ELSE date '1970-01-01' END
$$;
"""
# Made beside the table and attached: who reads or stores meanwhile does not wait. Triggers for
# rows come with that; one for TRUNCATE does not.
MAKE_MONTH = """
CREATE FUNCTION weir_make_usage_month(month date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ends date := (month + interval '1 month')::date;
    name text := 'control_usageevent_' || to_char(month, 'YYYYMM');
    ids text := 'weir_usage_month(call_id) = ' || quote_literal(month);
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('control_usageevent months'));
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    IF month > date '1970-01-01' THEN  -- the same in fewer steps, for each row pays it
        ids := format('call_id COLLATE "C" >= %L AND call_id COLLATE "C" < %L'
                      ' AND substr(call_id, 17, 1) = ''7''',
            'req_' || lpad(to_hex(extract(epoch FROM month)::bigint * 1000), 12, '0'),
            'req_' || lpad(to_hex(extract(epoch FROM ends)::bigint * 1000), 12, '0'));
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE control_usageevent INCLUDING DEFAULTS'
                   ' INCLUDING CONSTRAINTS, CONSTRAINT ids_of_the_month CHECK (%s))', name, ids);
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT'
                   ' EXECUTE FUNCTION weir_refuse_change()', name || '_stays', name);
    EXECUTE format('ALTER TABLE control_usageevent ATTACH PARTITION %I'
                   ' FOR VALUES FROM (%L) TO (%L)', name, month, ends);
END $$;
"""
BY_MONTH = """
ALTER TABLE control_usageevent RENAME TO control_usageevent_whole;
ALTER TABLE control_usageevent_whole DROP CONSTRAINT usage_event_counted_once;
DROP INDEX usage_by_start;
CREATE TABLE control_usageevent (LIKE control_usageevent_whole INCLUDING CONSTRAINTS)
    PARTITION BY RANGE (month);
CREATE SEQUENCE weir_usage_ids OWNED BY control_usageevent.id;
SELECT setval('weir_usage_ids', coalesce(max(id), 0) + 1, false) FROM control_usageevent_whole;
ALTER TABLE control_usageevent ALTER COLUMN id SET DEFAULT nextval('weir_usage_ids'),
    ADD CONSTRAINT usage_event_counted_once UNIQUE (call_id, tenant_id, kind, month);
CREATE INDEX usage_by_start ON control_usageevent (started_at, id);
CREATE TRIGGER control_usageevent_rows_stay BEFORE UPDATE OR DELETE ON control_usageevent
    FOR EACH ROW EXECUTE FUNCTION weir_refuse_change();
CREATE TRIGGER control_usageevent_stays BEFORE TRUNCATE ON control_usageevent
    FOR EACH STATEMENT EXECUTE FUNCTION weir_refuse_change();
CREATE SEQUENCE weir_usage_batches;
SELECT weir_make_usage_month(date '1970-01-01');
SELECT weir_make_usage_month(months.month) FROM (
    SELECT DISTINCT weir_usage_month(call_id) AS month FROM control_usageevent_whole) months;
"""
FREE = """(price_id IS NULL OR outcome = 'rejected' OR (output_tokens = 0 AND outcome IN (
    'incomplete', 'truncated', 'upstream_error', 'deadline', 'drained', 'lost')))"""
AS_THEY_WERE = """id, tenant_id, project_id, key_id, call_id, kind, route, version_id, replica_id,
    endpoint, stream, priority, attempts, outcome, status, finish_reason, input_tokens,
    cached_input_tokens, output_tokens, reasoning_tokens, delivered_tokens, tokens_source,
    started_at, first_token_at, ended_at, price_id, currency, amount_pico, content_hash,
    ingested_at"""
MOVE = f"""
INSERT INTO control_usageevent ({AS_THEY_WERE}, month, corrects, batch, billed_input,
    billed_cached_input, billed_output, billed_reasoning)
SELECT {AS_THEY_WERE}, weir_usage_month(call_id), '', 0,
    CASE WHEN {FREE} THEN 0 ELSE input_tokens - cached_input_tokens END,
    CASE WHEN {FREE} THEN 0 ELSE cached_input_tokens END,
    CASE WHEN {FREE} THEN 0 ELSE output_tokens - reasoning_tokens END,
    CASE WHEN {FREE} THEN 0 ELSE reasoning_tokens END
  FROM control_usageevent_whole ORDER BY id;
DROP TABLE control_usageevent_whole;
"""
ROLL_UP = """
INSERT INTO control_usagehour (hour, tenant_id, project_id, key_id, version_id, price_id, route,
    endpoint, priority, outcome, currency, calls, input_tokens, cached_input_tokens,
    output_tokens, reasoning_tokens, delivered_tokens, billed_input, billed_cached_input,
    billed_output, billed_reasoning, amount_pico, ttft_ms_sum, ttft_calls, duration_ms_sum)
SELECT date_trunc('hour', started_at, 'UTC'), tenant_id, project_id, key_id, version_id, price_id,
    route, endpoint, priority, outcome, currency, count(*), sum(input_tokens),
    sum(cached_input_tokens), sum(output_tokens), sum(reasoning_tokens), sum(delivered_tokens),
    sum(billed_input), sum(billed_cached_input), sum(billed_output), sum(billed_reasoning),
    sum(amount_pico),
    coalesce(sum(floor(extract(epoch FROM first_token_at - started_at) * 1000)), 0),
    count(first_token_at),
    sum(floor(extract(epoch FROM ended_at - started_at) * 1000))
  FROM control_usageevent GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('control', '0025_periods_and_invoices'),
    ]

    operations = [
        migrations.CreateModel(
            name='UsageHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('route', models.CharField(max_length=96)),
                ('endpoint', models.CharField(max_length=32)),
                ('priority', models.CharField(max_length=16)),
                ('outcome', models.CharField(max_length=16)),
                ('currency', models.CharField(blank=True, default='', max_length=3)),
                ('calls', models.BigIntegerField(default=0, help_text='Corrections are none')),
                ('input_tokens', models.BigIntegerField(default=0)),
                ('cached_input_tokens', models.BigIntegerField(default=0)),
                ('output_tokens', models.BigIntegerField(default=0)),
                ('reasoning_tokens', models.BigIntegerField(default=0)),
                ('delivered_tokens', models.BigIntegerField(default=0)),
                ('billed_input', models.BigIntegerField(default=0)),
                ('billed_cached_input', models.BigIntegerField(default=0)),
                ('billed_output', models.BigIntegerField(default=0)),
                ('billed_reasoning', models.BigIntegerField(default=0)),
                ('amount_pico', models.DecimalField(decimal_places=0, default=0, max_digits=38)),
                ('ttft_ms_sum', models.BigIntegerField(default=0)),
                ('ttft_calls', models.BigIntegerField(default=0, help_text='Those that had a first token')),
                ('duration_ms_sum', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='usageevent',
            name='usage_event_counted_once',
        ),
        migrations.RemoveIndex(
            model_name='usageevent',
            name='usage_by_version',
        ),
        migrations.AddField(
            model_name='spoolposition',
            name='open_calls',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='spoolposition',
            name='read_until',
            field=models.DateTimeField(blank=True, help_text='Calls that ended before it are stored', null=True),
        ),
        migrations.AddField(
            model_name='spoolposition',
            name='stored_until',
            field=models.DateTimeField(blank=True, help_text='Calls that started before it are stored', null=True),
        ),
        migrations.AddField(
            model_name='usageevent',
            name='batch',
            field=models.BigIntegerField(default=0, help_text='Stored with it; 0 before there were any'),
        ),
        migrations.AddField(
            model_name='usageevent',
            name='billed_cached_input',
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='usageevent',
            name='billed_input',
            field=models.BigIntegerField(default=0, help_text='Not from the cache'),
        ),
        migrations.AddField(
            model_name='usageevent',
            name='billed_output',
            field=models.BigIntegerField(default=0, help_text='Without reasoning'),
        ),
        migrations.AddField(
            model_name='usageevent',
            name='billed_reasoning',
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='usageevent',
            name='corrects',
            field=models.CharField(blank=True, default='', help_text='The kind of this call that it corrects', max_length=16),
        ),
        migrations.AddField(
            model_name='usageevent',
            name='month',
            field=models.DateField(default=datetime.date(1970, 1, 1), help_text="Of the call's id; see metering.months"),
        ),
        migrations.AlterField(
            model_name='usageevent',
            name='cached_input_tokens',
            field=models.BigIntegerField(default=0),
        ),
        migrations.AlterField(
            model_name='usageevent',
            name='delivered_tokens',
            field=models.BigIntegerField(default=0, help_text='Output that was sent on'),
        ),
        migrations.AlterField(
            model_name='usageevent',
            name='input_tokens',
            field=models.BigIntegerField(help_text='Cached ones included'),
        ),
        migrations.AlterField(
            model_name='usageevent',
            name='key',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='control.key'),
        ),
        migrations.AlterField(
            model_name='usageevent',
            name='output_tokens',
            field=models.BigIntegerField(help_text='Generated, reasoning included'),
        ),
        migrations.AlterField(
            model_name='usageevent',
            name='price',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='control.price'),
        ),
        migrations.AlterField(
            model_name='usageevent',
            name='project',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='control.project'),
        ),
        migrations.AlterField(
            model_name='usageevent',
            name='reasoning_tokens',
            field=models.BigIntegerField(default=0),
        ),
        migrations.AlterField(
            model_name='usageevent',
            name='tenant',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='usage', to='control.tenant'),
        ),
        migrations.AlterField(
            model_name='usageevent',
            name='version',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='usage', to='control.version'),
        ),
        migrations.AddConstraint(
            model_name='usageevent',
            constraint=models.UniqueConstraint(fields=('call_id', 'tenant', 'kind', 'month'), name='usage_event_counted_once'),
        ),
        migrations.AddField(
            model_name='usagehour',
            name='key',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='control.key'),
        ),
        migrations.AddField(
            model_name='usagehour',
            name='price',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='control.price'),
        ),
        migrations.AddField(
            model_name='usagehour',
            name='project',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='control.project'),
        ),
        migrations.AddField(
            model_name='usagehour',
            name='tenant',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='control.tenant'),
        ),
        migrations.AddField(
            model_name='usagehour',
            name='version',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='control.version'),
        ),
        migrations.AddIndex(
            model_name='usagehour',
            index=models.Index(fields=['tenant', 'hour'], name='usage_hours_by_tenant'),
        ),
        migrations.AddConstraint(
            model_name='usagehour',
            constraint=models.UniqueConstraint(fields=('hour', 'tenant', 'project', 'key', 'version', 'route', 'endpoint', 'priority', 'outcome', 'price', 'currency'), name='usage_of_an_hour', nulls_distinct=False),
        ),
        migrations.RunSQL(MONTH_OF),
        migrations.RunSQL(MAKE_MONTH),
        migrations.RunSQL(BY_MONTH),
        migrations.RunSQL(MOVE),
        migrations.RunSQL(ROLL_UP),
    ]
