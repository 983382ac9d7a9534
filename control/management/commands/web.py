"""`weir web`: the console, its API and its sockets, in one process."""

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection

from control.management.local.schema import SchemaIsOlder, refuse_older_schema
from control.management.shell import database_away

STOPPING_SECONDS_MAX = 10


class Command(BaseCommand):
    help = "Serve the console (WEIR_BIND, WEIR_CONSOLE_PORT)."
    requires_system_checks = ()

    def handle(self, **options) -> None:
        try:
            refuse_older_schema()
        except SchemaIsOlder as older:
            raise CommandError(str(older)) from None
        except DatabaseError as error:
            raise database_away(error) from None
        finally:
            connection.close()
        uvicorn.run(
            "console.asgi:application",
            host=settings.WEIR_BIND,
            port=settings.WEIR_CONSOLE_PORT,
            lifespan="off",
            timeout_graceful_shutdown=STOPPING_SECONDS_MAX,
            access_log=False,
            log_config=None,  # in the form of all processes, without what each socket is called by
        )
