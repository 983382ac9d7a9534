"""`weir migrate`: Django's, one at a time however many hosts start at once."""

from django.core.management.commands import migrate
from django.db import connections

LOCK = 0x77656972  # "weir"


class Command(migrate.Command):
    help = "Bring the database to the schema of this version; hosts that start at once take turns."

    def handle(self, *args, **options) -> None:
        # A connection of its own: migrations close and reopen theirs.
        lock = connections.create_connection(options["database"])
        try:
            with lock.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
            super().handle(*args, **options)
        finally:
            with lock.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock_all()")
            lock.close()
