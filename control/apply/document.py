"""YAML text → nodes that know their line. Understands the plain core of YAML and nothing else."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import yaml

SIZE_BYTES_MAX = 2**20
DEPTH_MAX = 12
VALUES_MAX = 50_000
# The C parser is there in every wheel; a source build may lack it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# YAML 1.2's core types: no dates, no `yes`, no 1:30 that turns into ninety.
NULL = re.compile(r"null|Null|NULL|~|")
BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
WHOLE = re.compile(r"[-+]?[0-9]{1,20}")
NUMBER = re.compile(r"[-+]?[0-9]{1,20}(\.[0-9]{0,20})?([eE][-+]?[0-9]{1,3})?")


@dataclass(frozen=True)
class Scalar:
    text: str
    line: int
    quoted: bool

    @property
    def kind(self) -> str:
        """What a reader of YAML takes it for: text, null, true/false, whole number, number."""
        if self.quoted:
            return "text"
        kinds = {"null": NULL, "true or false": BOOLEAN, "whole number": WHOLE, "number": NUMBER}
        return next((kind for kind, form in kinds.items() if form.fullmatch(self.text)), "text")


@dataclass
class Sequence:
    line: int
    items: list["Node"] = field(default_factory=list)
    kind: ClassVar[str] = "list"


@dataclass
class Mapping:
    line: int
    members: dict[str, "Node"] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)  # of the members' names
    repeated: dict[str, int] = field(default_factory=dict)  # name: line of its first mention
    kind: ClassVar[str] = "mapping"


Node = Scalar | Sequence | Mapping


class Unreadable(Exception):
    """The text is no document of ours; nothing more can be said about it."""

    def __init__(self, line: int, what: str):
        self.line, self.what = line, what
        super().__init__(what)


def read(text: str) -> Node:
    """The one document in the text, or Unreadable."""
    if len(text.encode(errors="replace")) > SIZE_BYTES_MAX:
        raise Unreadable(1, f"is larger than {SIZE_BYTES_MAX} bytes")
    events = _events(text)
    first = next(events, None)
    if first is None:
        raise Unreadable(1, "is empty")
    node = _Composer(events).node(first)
    _measure(node, VALUES_MAX)
    if extra := next(events, None):
        raise Unreadable(_line(extra), "begins a second document: write one file for each")
    return node


def _events(text: str) -> Iterator[yaml.Event]:
    """Parsing events without the frame; a tag could make anything of a value, so none is taken."""
    try:
        for event in yaml.parse(text, Loader=LOADER):
            tag = getattr(event, "tag", None)
            if tag is not None:
                raise Unreadable(_line(event), f"uses the tag {tag!r}: leave it out")
            if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                yield event
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise Unreadable(line, f"is no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        first = (str(error).splitlines() or ["unreadable"])[0]
        raise Unreadable(1, f"is no YAML: {first}") from None


class _Composer:
    """Events → nodes; an alias is the very node that its anchor named."""

    def __init__(self, events: Iterator[yaml.Event]):
        self.events = events
        self.anchors: dict[str, Node] = {}

    def node(self, event: yaml.Event, depth: int = 1) -> Node:
        if depth > DEPTH_MAX:
            raise Unreadable(_line(event), f"is nested deeper than {DEPTH_MAX}")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise Unreadable(_line(event), f"*{event.anchor} names nothing that stands before")
            return self.anchors[event.anchor]
        if isinstance(event, yaml.ScalarEvent):
            node = Scalar(event.value, _line(event), quoted=bool(event.style))
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, depth)
        else:
            node = self._mapping(event, depth)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _sequence(self, start: yaml.Event, depth: int) -> Sequence:
        sequence = Sequence(_line(start))
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            sequence.items.append(self.node(event, depth + 1))
        return sequence

    def _mapping(self, start: yaml.Event, depth: int) -> Mapping:
        mapping = Mapping(_line(start))
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise Unreadable(_line(event), "names a member by a list or a mapping")
            name = event.value
            if name in mapping.members:
                mapping.repeated.setdefault(name, mapping.lines[name])
            mapping.lines[name] = _line(event)
            mapping.members[name] = self.node(next(self.events), depth + 1)
        return mapping


def _measure(node: Node, left: int, depth: int = 1) -> int:
    """How many values may still come. What an alias stands for counts each time it is used."""
    if depth > DEPTH_MAX:
        raise Unreadable(node.line, f"is nested deeper than {DEPTH_MAX}")
    if left <= 0:
        raise Unreadable(node.line, f"has more than {VALUES_MAX} values")
    left -= 1
    inner = node.items if isinstance(node, Sequence) else getattr(node, "members", {}).values()
    for value in inner:
        left = _measure(value, left, depth + 1)
    return left


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1
