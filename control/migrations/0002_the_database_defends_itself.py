"""Append-only tables, immutable versions, device memory within the device, snapshot rows."""

from django.db import migrations

APPEND_ONLY = [
    "control_usageevent",
    "control_transfer",
    "control_posting",
    "control_auditentry",
    "control_statechange",
]

REFUSE = """
CREATE FUNCTION weir_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'integrity_constraint_violation',
              HINT = 'Correct with a new row.';
END $$;
"""

VERSION_CONTENT = """
CREATE FUNCTION weir_version_is_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.model_id, NEW.name, NEW.engine, NEW.source, NEW.arguments, NEW.memory, NEW.digest)
       IS DISTINCT FROM
       (OLD.model_id, OLD.name, OLD.engine, OLD.source, OLD.arguments, OLD.memory, OLD.digest) THEN
        RAISE EXCEPTION 'versions are immutable: name a new one'
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER version_is_immutable BEFORE UPDATE ON control_version
    FOR EACH ROW EXECUTE FUNCTION weir_version_is_immutable();
"""

WITHIN_DEVICE = """
CREATE FUNCTION weir_reservation_fits() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE total bigint;
BEGIN
    SELECT memory_total_bytes INTO total FROM control_device WHERE id = NEW.device_id;
    IF isempty(NEW.memory) OR lower(NEW.memory) < 0 OR upper(NEW.memory) > total THEN
        RAISE EXCEPTION 'reservation % lies outside the % bytes of its device', NEW.memory, total
            USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER reservation_fits BEFORE INSERT OR UPDATE OF memory ON control_reservation
    FOR EACH ROW EXECUTE FUNCTION weir_reservation_fits();
"""


def append_only(table: str) -> str:
    return f"""
CREATE TRIGGER {table}_rows_stay BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION weir_refuse_change();
CREATE TRIGGER {table}_stays BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION weir_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("control", "0001_nouns")]

    operations = [
        migrations.RunSQL(REFUSE),
        *[migrations.RunSQL(append_only(table)) for table in APPEND_ONLY],
        migrations.RunSQL(VERSION_CONTENT),
        migrations.RunSQL(WITHIN_DEVICE),
        migrations.RunSQL(
            "INSERT INTO control_snapshotpart (part, version, built, payload)"
            " VALUES ('identities', 1, 0, ''), ('routes', 1, 0, ''), ('replicas', 1, 0, '')"
        ),
    ]
