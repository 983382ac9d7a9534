"""What commands at a shell share: who is there, and what is said while the database is away."""

import os
import pwd

from django.core.management.base import CommandError
from django.db import Error as DatabaseError


def actor() -> str:
    """Who is at the shell, for the audit."""
    try:
        return f"shell:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"shell:{os.getuid()}"


def database_away(error: DatabaseError) -> CommandError:
    """In one line: what the database said, and what to do about it."""
    said = str(error).strip().splitlines() or [type(error).__name__]
    return CommandError(
        f"the database does not answer: {said[0]}. "
        "Start this instance with `weir up`, or check WEIR_DATABASE_URL"
    )
