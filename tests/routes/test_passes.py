"""A pass is good for one key, one request and one moment."""

from itertools import count

import pytest

from control.routes import passes

TARGET = b"/v1/usage?month=2026-11"
GIVEN = passes.pass_of(9, "GET", TARGET, 1_000_000.4)


def test_a_pass_tells_the_key():
    assert passes.key_of(GIVEN, "GET", TARGET, 1_000_010) == 9


@pytest.mark.parametrize(
    ("given", "method", "target", "at"),
    [
        (GIVEN, "POST", TARGET, 1_000_000),
        (GIVEN, "GET", b"/v1/usage", 1_000_000),
        (GIVEN, "GET", TARGET, 1_000_031),
        (GIVEN, "GET", TARGET, 999_969),
        (GIVEN.replace("9.", "8.", 1), "GET", TARGET, 1_000_000),
        (GIVEN[:-1], "GET", TARGET, 1_000_000),
        ("9", "GET", TARGET, 1_000_000),
        ("9.1000000.", "GET", TARGET, 1_000_000),
        ("x.y.z", "GET", TARGET, 1_000_000),
        ("", "GET", TARGET, 1_000_000),
        ("9.1000000.é", "GET", TARGET, 1_000_000),
        ("٣.1000000.0", "GET", TARGET, 1_000_000),
    ],
    ids=count(),  # a pass is another one in each process
)
def test_any_other_use_of_it_is_nobodys(given, method, target, at):
    assert passes.key_of(given, method, target, at) is None
