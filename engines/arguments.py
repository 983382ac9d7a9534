"""Arguments that a version may give its engine: an allow-list with types, as command-line flags."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from engines.spec import BadSpec

Value = str | int | float | bool
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Argument:
    """What an argument may be. A word holds no slash, so no argument names a file."""

    kind: str  # "whole" | "number" | "switch" | "one_of" | "word"
    least: int = 0
    choices: tuple[str, ...] = ()

    @staticmethod
    def whole(least: int) -> "Argument":
        return Argument("whole", least=least)

    @staticmethod
    def number() -> "Argument":
        return Argument("number")

    @staticmethod
    def switch() -> "Argument":
        return Argument("switch")

    @staticmethod
    def one_of(*choices: str) -> "Argument":
        return Argument("one_of", choices=choices)

    @staticmethod
    def word() -> "Argument":
        return Argument("word")

    def why_not(self, value: Value) -> str | None:
        """What is wrong with this value, or None."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        match self.kind:
            case "whole":
                good = number and isinstance(value, int) and value >= self.least
                wanted = f"a whole number from {self.least}"
            case "number":
                good, wanted = number and value >= self.least, f"a number from {self.least}"
            case "switch":
                good, wanted = isinstance(value, bool), "true or false"
            case "one_of":
                good, wanted = str(value) in self.choices, f"one of {', '.join(self.choices)}"
            case _:
                good = isinstance(value, str) and bool(_WORD.fullmatch(value))
                wanted = "a word of letters, digits, '.', '_' and '-', 64 at most"
        return None if good else f"must be {wanted}, not {value!r}"


def check_arguments(
    engine: str,
    given: Mapping[str, Value],
    known: Mapping[str, Argument],
    elsewhere: Mapping[str, str] | None = None,
) -> None:
    """Raise BadSpec naming the first argument that is unknown, misplaced or of a wrong type."""
    for name, value in given.items():
        if owner := (elsewhere or {}).get(name):
            raise BadSpec(f"argument {name!r}: {owner} decides this; leave it out")
        if name not in known:
            raise BadSpec(f"argument {name!r}: {engine} knows no such argument{_hint(name, known)}")
        if wrong := known[name].why_not(value):
            raise BadSpec(f"argument {name!r} {wrong}")


def _hint(name: str, known: Mapping[str, Argument]) -> str:
    near = get_close_matches(name.replace("-", "_"), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"


def flags(given: Mapping[str, Value], known: Mapping[str, Argument]) -> tuple[str, ...]:
    """Checked arguments as flags, sorted, so that equal versions have equal commands."""
    argv: list[str] = []
    for name, value in sorted(given.items()):
        flag = name.replace("_", "-")
        if known[name].kind == "switch":
            argv.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            argv += [f"--{flag}", str(value)]
    return tuple(argv)
