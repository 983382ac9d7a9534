"""Is the database as new as this code?"""

from django.db import connection
from django.db.migrations.executor import MigrationExecutor


class SchemaIsOlder(Exception):
    """Says which migrations are missing, and the command that applies them."""


def refuse_older_schema() -> None:
    """Asked by web, control and node as they start; a newer schema is fine for one release."""
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        names = ", ".join(f"{one.app_label}.{one.name}" for one, _ in missing[:3])
        raise SchemaIsOlder(
            f"the database is older than this Weir ({len(missing)} migrations missing: {names}): "
            f"run `weir migrate`"
        )
