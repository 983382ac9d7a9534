"""Reading one mapping of the file: members by name and type, what is odd is noted with its line."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from control.apply.document import Mapping, Node, Scalar, Sequence
from control.checks import Problem

ITEMS_MAX = 10_000


@dataclass
class Findings:
    """Everything odd in one file, and the line of every field that was read."""

    problems: list[Problem] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, path: str, what: str) -> None:
        self.problems.append(Problem(path, what))

    def add_all(self, path: str, problems: Iterable[Problem]) -> None:
        """Problems of a room's rules, whose fields are relative; known ones are not repeated."""
        bad = {problem.field for problem in self.problems}
        found = (problem.under(path) for problem in problems)
        self.problems += [problem for problem in found if problem.field not in bad]


class Fields:
    """One mapping. Each member is asked for once; `end` refuses the members nobody asked for."""

    def __init__(self, node: Node | None, path: str, findings: Findings):
        self.path, self.findings = path, findings
        self.members: dict[str, Node] = {}
        self.asked: set[str] = set()
        if isinstance(node, Mapping):
            self.members = node.members
            for name, line in node.lines.items():
                findings.lines[self.at(name)] = line
            for name, first in node.repeated.items():
                findings.add(self.at(name), f"is named twice (first in line {first})")
        elif node is not None and not _is_null(node):
            findings.add(path, f"is a {node.kind}, not a mapping of members")

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def text(self, name: str, default: str | None = "") -> str | None:
        node = self._take(name)
        if node is None:
            return default
        if isinstance(node, Scalar) and node.kind == "text":
            return node.text
        hint = ": put it in quotes" if isinstance(node, Scalar) else ""
        return self._wrong(name, node, f"a text{hint}", default)

    def required(self, name: str) -> str:
        """A text that must be there; an empty one stands in for it, so that reading goes on."""
        if self._absent(name):
            self.asked.add(name)
            self.findings.add(self.at(name), "is required")
            return ""
        return self.text(name, "") or ""

    def whole(self, name: str, default: int | None = None) -> int | None:
        node = self._take(name)
        if node is None:
            return default
        if isinstance(node, Scalar) and node.kind == "whole number":
            return int(node.text)
        return self._wrong(name, node, "a whole number", default)

    def flag(self, name: str, default: bool = False) -> bool:
        node = self._take(name)
        if node is None:
            return default
        if isinstance(node, Scalar) and node.kind == "true or false":
            return node.text.lower() == "true"
        return self._wrong(name, node, "true or false", default)

    def real(self, name: str, default: float | None = None) -> float | None:
        """A measure, where the last binary digit does not matter."""
        node = self._take(name)
        if node is None:
            return default
        if isinstance(node, Scalar) and node.kind in ("whole number", "number"):
            return float(node.text)
        return self._wrong(name, node, "a number", default)

    def number(self, name: str, default: str | None = None) -> str | None:
        """An amount as it is written: quoted or not, it never was a float."""
        node = self._take(name)
        if node is None:
            return default
        if isinstance(node, Scalar) and node.kind in ("text", "whole number", "number"):
            return node.text
        return self._wrong(name, node, "a number", default)

    def instant(self, name: str) -> datetime | None:
        text = self.text(name, None)
        if text is None:
            return None
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            self.findings.add(self.at(name), "is no instant: write 2027-01-01T00:00:00Z")
            return None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts; None if the member is absent."""
        return self._scalars(name, "text")

    def wholes(self, name: str) -> tuple[int, ...] | None:
        found = self._scalars(name, "whole number")
        return None if found is None else tuple(int(text) for text in found)

    def mapping(self, name: str) -> "Fields":
        return Fields(self._take(name), self.at(name), self.findings)

    def free(self, name: str) -> dict[str, str | int | float | bool]:
        """A mapping whose names are not ours: each value is what YAML takes it for."""
        inner = self.mapping(name)
        return {member: inner._plain(member) for member in list(inner.members)}

    def has(self, name: str) -> bool:
        return not self._absent(name)

    def items(self, name: str) -> list["Fields"]:
        node = self._take(name)
        if node is None:
            return []
        if not isinstance(node, Sequence):
            return self._wrong(name, node, "a list", [])
        if len(node.items) > ITEMS_MAX:
            return self._wrong(name, node, f"a list of at most {ITEMS_MAX}", [])
        found = []
        for number, item in enumerate(node.items):
            path = f"{self.at(name)}[{number}]"
            self.findings.lines[path] = item.line
            found.append(Fields(item, path, self.findings))
            if _is_null(item):
                self.findings.add(path, "is empty")
        return found

    def end(self) -> None:
        known = ", ".join(sorted(self.asked))
        for name in self.members:
            if name not in self.asked:
                self.findings.add(self.at(name), f"is not understood; known here are {known}")

    def _scalars(self, name: str, kind: str) -> tuple[str, ...] | None:
        node = self._take(name)
        if node is None:
            return None
        if not isinstance(node, Sequence):
            return self._wrong(name, node, f"a list of {kind}s", None)
        found = []
        for number, item in enumerate(node.items):
            path = f"{self.at(name)}[{number}]"
            self.findings.lines[path] = item.line
            if isinstance(item, Scalar) and item.kind == kind:
                found.append(item.text)
            else:
                self.findings.add(path, f"is a {item.kind}, not a {kind}")
        return tuple(found)

    def _plain(self, name: str) -> str | int | float | bool:
        node = self._take(name)
        if not isinstance(node, Scalar):
            kind = node.kind if node else "null"
            self.findings.add(self.at(name), f"is a {kind}, not one value")
            return ""
        match node.kind:
            case "true or false":
                return node.text.lower() == "true"
            case "whole number":
                return int(node.text)
            case "number":
                return float(Decimal(node.text))
        return node.text

    def _take(self, name: str) -> Node | None:
        self.asked.add(name)
        return None if self._absent(name) else self.members[name]

    def _absent(self, name: str) -> bool:
        return name not in self.members or _is_null(self.members[name])

    def _wrong(self, name: str, node: Node, wanted: str, instead):
        self.findings.add(self.at(name), f"is a {node.kind}, not {wanted}")
        return instead


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.kind == "null"
