"""The words of a plan: what is stored, the steps from there to the file, and how they read."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from control.checks import Problem


class Verb(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    RESTORE = "restore"  # from the archive
    ROTATE = "rotate"
    UNCHANGED = "unchanged"
    DRAIN = "drain"
    ARCHIVE = "archive"
    REVOKE = "revoke"
    REMOVE = "remove"


MARKS = {
    Verb.CREATE: "+",
    Verb.CHANGE: "~",
    Verb.RESTORE: "+",
    Verb.ROTATE: "~",
    Verb.UNCHANGED: "=",
    Verb.DRAIN: "-",
    Verb.ARCHIVE: "-",
    Verb.REVOKE: "-",
    Verb.REMOVE: "-",
}


@dataclass(frozen=True)
class Seen:
    """A stored object as the file would ask for it."""

    wanted: object
    archived: bool = False
    draining: bool = False
    live: int = 0  # replicas of a deployment
    digest: str = ""  # of a key's secret, or of an external engine's key
    content: str = ""  # digest of a version's content, as it was when it was stored
    ident: int = 0


@dataclass(frozen=True)
class Stored:
    """What the database holds: subject ("tenant acme") → as it is."""

    seen: dict[str, Seen] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)  # digest of a secret → whose it is or was

    def get(self, kind: str, name: str) -> Seen | None:
        return self.seen.get(f"{kind} {name}")

    def active(self, kind: str, name: str) -> bool:
        found = self.get(kind, name)
        return found is not None and not found.archived

    def names(self, kind: str) -> list[str]:
        """Of what is not in the archive."""
        start = f"{kind} "
        found = [name for name, seen in self.seen.items() if not seen.archived]
        return sorted(name.removeprefix(start) for name in found if name.startswith(start))


@dataclass(frozen=True)
class Change:
    field: str
    before: object
    after: object


@dataclass(frozen=True)
class Step:
    """One named thing to do; `wanted` is what the room's action takes."""

    verb: Verb
    kind: str
    name: str
    changes: tuple[Change, ...] = ()
    wanted: object = None
    note: str = ""

    @property
    def subject(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Plan:
    steps: tuple[Step, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def changes(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.verb is not Verb.UNCHANGED)


def lines(plan: Plan) -> list[str]:
    """The plan as a person reads it: every field of what is new, only the differences else."""
    found = []
    for step in plan.steps:
        note = f"  ({step.note})" if step.note else ""
        found.append(f"{MARKS[step.verb]} {step.verb} {step.subject.replace('_', ' ')}{note}")
        found += [f"      {_said(step.verb, change)}" for change in step.changes]
    return found


def _said(verb: Verb, change: Change) -> str:
    if verb is Verb.CREATE:
        return f"{change.field}: {said(change.after)}"
    return f"{change.field}: {said(change.before)} -> {said(change.after)}"


def said(value: object) -> str:
    """A value as it would stand in the file."""
    if value is None or value == "":
        return "none"
    if isinstance(value, str):
        return value if value.isprintable() else json.dumps(value, ensure_ascii=False)
    if isinstance(value, datetime):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, default=str)
