"""Price books as tests need them: rows cannot be changed, so newer ones take their place."""

from django.db import connection, transaction

from control.models import Price


def reprice(**changes: object) -> None:
    """Every row has a newer one, begun when it did, with these changes."""
    for row in Price.objects.order_by("pk"):
        row.pk = None
        for name, value in changes.items():
            setattr(row, name, value)
        row.save(force_insert=True)


def drop_prices() -> None:
    """As if there had never been any: a replica of a database fires no triggers."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("DELETE FROM control_price")
        cursor.execute("SET LOCAL session_replication_role = origin")
