"""What import-linter and ruff cannot see: sizes."""

import ast
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
