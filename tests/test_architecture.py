"""What import-linter and ruff cannot see: sizes, and who says that it is pure."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(
    path.relative_to(ROOT)
    for room in ("console", "control", "engines", "tests")
    for path in (ROOT / room).rglob("*.py")
    if "migrations" not in path.parts
)
LINES_PER_FILE = 300
LINES_PER_FUNCTION = 50
TOLERATED: dict[str, int] = {}  # "path": lines today. Numbers here only go down.
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
SAYS_PURE = re.compile(r"\(pure\)|\bPure\b|values in, values out")


def tree(path):
    return ast.parse((ROOT / path).read_text())


@pytest.mark.parametrize("path", FILES, ids=str)
def test_file_fits_in_the_head(path):
    lines = len((ROOT / path).read_text().splitlines())
    assert lines <= TOLERATED.get(str(path), LINES_PER_FILE)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_functions_fit_on_a_screen(path):
    functions = [node for node in ast.walk(tree(path)) if isinstance(node, FUNCTION)]
    long = [f.name for f in functions if f.end_lineno - f.lineno >= LINES_PER_FUNCTION]
    assert not long


def test_who_says_that_it_is_pure_is_held_to_it():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [pure] = [one for one in contracts["contracts"] if one["name"].startswith("Rules are pure")]
    held = [re.compile(pattern_of(name)) for name in pure["source_modules"]]
    for path in FILES:
        if path.parts[0] == "tests" or not SAYS_PURE.search(ast.get_docstring(tree(path)) or ""):
            continue
        module = ".".join(path.with_suffix("").parts)
        assert any(one.fullmatch(module) for one in held), f"{module}: name it in {pure['name']!r}"


def pattern_of(name: str) -> str:
    """`*` stands for one part of a module's name, `**` for one or more."""
    parts = {"**": r"\w+(\.\w+)*", "*": r"\w+"}
    return r"\.".join(parts.get(part, re.escape(part)) for part in name.split("."))
