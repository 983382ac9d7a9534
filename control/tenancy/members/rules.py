"""Who may sign in for a tenant: how such a person is named (pure)."""

import re

from control.checks import Problem

MEMBERS_MAX = 100  # of one tenant
USERNAME_CHARACTERS_MAX = 150
_USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@.+_-]*")


def username_problems(field: str, name: str) -> list[Problem]:
    if len(name) > USERNAME_CHARACTERS_MAX:
        return [Problem(field, f"is longer than {USERNAME_CHARACTERS_MAX} characters")]
    if not _USERNAME.fullmatch(name):
        what = f"{name!r} is no name: use letters, digits and @ . + - _, as in ann@example.com"
        return [Problem(field, what)]
    return []
