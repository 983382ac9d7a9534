"""A month of very many charges: each key of a tenant calls once a day."""

from django.db import connection

from control.models import Key, UsageEvent

# The house's one call, again for each key and day of November.
CALLS = """
INSERT INTO control_usageevent ({columns})
SELECT {values} FROM control_usageevent event, control_key key, generate_series(1, %(days)s) AS day
 WHERE key.project_id = event.project_id AND key.id <> event.key_id
"""
OF_EACH = {
    "key_id": "key.id",
    "call_id": "'req_' || key.id || '_' || day",
    "started_at": "'2026-10-31 12:00Z'::timestamptz + day * interval '1 day'",
    "ended_at": "'2026-10-31 12:01Z'::timestamptz + day * interval '1 day'",
    "first_token_at": "NULL",
}


def call_daily(house, keys: int, days: int) -> None:
    """Of a house that has called once. Three charges a key and day: input, cached, output."""
    Key.objects.bulk_create(
        Key(
            tenant=house.tenant,
            project=house.project,
            name=f"k{number}",
            shown="wei…abcd",
            digest=f"of many {number}",
        )
        for number in range(keys)
    )
    names = [field.column for field in UsageEvent._meta.fields if field.column != "id"]
    values = ", ".join(OF_EACH.get(name, f"event.{name}") for name in names)
    with connection.cursor() as cursor:
        cursor.execute(CALLS.format(columns=", ".join(names), values=values), {"days": days})
