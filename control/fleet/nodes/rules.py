"""What an operator may say of a node: its pool, its labels, when it leaves."""

from control import checks
from control.checks import Problem

LABELS_MAX = 32
LABEL_CHARACTERS_MAX = 63
LEAVING_SECONDS_MAX = 7 * 24 * 3600


def pool_problems(pool: str) -> list[Problem]:
    return checks.name("pool", pool)


def label_problems(labels: dict[str, str]) -> list[Problem]:
    if len(labels) > LABELS_MAX:
        return [Problem("labels", f"are more than {LABELS_MAX}")]
    found = []
    for name, value in labels.items():
        path = f"labels.{name}"[:LABEL_CHARACTERS_MAX]
        found += checks.name(path, name)
        found += checks.text(path, value, LABEL_CHARACTERS_MAX)
    return found


def leaving_problems(seconds: float) -> list[Problem]:
    return checks.between("in_seconds", seconds, 0, LEAVING_SECONDS_MAX)
