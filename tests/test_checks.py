"""What any wanted value must satisfy."""

from decimal import Decimal

import pytest

from control import checks
from control.checks import Problem, Refused


@pytest.mark.parametrize("name", ["a", "acme", "A-1_b", "0", "a" * 63])
def test_a_name_may_stand_in_an_address(name):
    assert checks.name("name", name) == []


@pytest.mark.parametrize(
    "name",
    ["", "-a", "a-", "a b", "a.b", "a/b", "ä", "a\n", "a\r\nset-cookie: x=1", "a\tb", "a" * 64],
)
def test_h06_what_could_split_a_header_or_an_address_is_no_name(name):
    assert checks.name("name", name)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (checks.model_name, "llama-3.1-8b", "org/name"),
        (checks.version_name, "v1.2", "v1:2"),
        (checks.public_name, "org/name:tag", "org name"),
    ],
)
def test_models_versions_and_routes_have_names_of_their_own(check, good, bad):
    assert check("name", good) == []
    assert check("name", bad)


@pytest.mark.parametrize("text", ["two\nlines", "tab\there", "ünïcödé", ""])
def test_words_for_people_may_have_lines(text):
    assert checks.text("note", text) == []


@pytest.mark.parametrize("text", ["\x00", "a\x1b[31m", "\ud800", "x" * 2001])
def test_words_for_people_hold_no_control_characters(text):
    assert checks.text("note", text)


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("0", True),
        ("0.000001", True),
        ("0.0000001", False),
        ("1.1000000", True),
        ("-1", False),
        ("NaN", False),
        ("Infinity", False),
        ("1e10", False),
    ],
)
def test_an_amount_has_six_decimals_at_most(value, fits):
    assert (checks.amount("amount", Decimal(value)) == []) is fits


def test_all_problems_are_told_together():
    with pytest.raises(Refused) as refused:
        checks.require([Problem("a", "is bad"), Problem("b.c", "is worse"), Problem("", "no")])
    assert str(refused.value) == "a: is bad; b.c: is worse; no"
    checks.require([])


def test_a_problem_is_told_under_a_path():
    assert Problem("name", "is bad").under("tenants[0]") == Problem("tenants[0].name", "is bad")
    assert Problem("", "is bad").under("tenants[0]") == Problem("tenants[0]", "is bad")
