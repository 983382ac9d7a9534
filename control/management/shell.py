"""What commands at a shell share: who is there, and what is said while the database is away."""

import os
import pwd

import psycopg
from django.conf import settings
from django.core.management.base import CommandError
from django.db import Error as DatabaseError

ANSWER_SECONDS_MAX = 5


def actor() -> str:
    """Who is at the shell, for the audit."""
    try:
        return f"shell:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"shell:{os.getuid()}"


def require_database() -> None:
    """Asked at once: Django's pool would try for ten seconds, and not say why it fails."""
    try:
        psycopg.connect(settings.WEIR_DATABASE_URL, connect_timeout=ANSWER_SECONDS_MAX).close()
    except psycopg.Error as error:
        if not settings.WEIR_CONNECTIONS and not settings.WEIR_DATABASE_IS_EXTERNAL:
            raise CommandError(
                f"Weir does not run in {settings.WEIR_HOME}: start it with `weir up`, "
                "or choose another WEIR_HOME"
            ) from None
        raise database_away(error) from None


def database_away(error: DatabaseError | psycopg.Error) -> CommandError:
    """In one line: what the database said, and what to do about it."""
    said = str(error).strip().splitlines() or [type(error).__name__]
    return CommandError(
        f"the database does not answer: {said[0]}. "
        "Start this instance with `weir up`, or check WEIR_DATABASE_URL"
    )
