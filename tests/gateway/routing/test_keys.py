"""What a call is known by: its prefix or its conversation; and which rule it goes by."""

import pytest

from control.gateway.routing.keys import (
    BLOCK_BYTES,
    conversation_key,
    key_salt,
    prefix_key,
    replica_seed,
)
from control.gateway.routing.targets import Asked, hour_of, narrowed
from control.routes.snapshot import RuleInfo
from tests.gateway.place import route, target

SALT = key_salt(1, "chat", shared=False)
SYSTEM = {"role": "system", "content": "Be kind. " * 140}  # more than two blocks


def messages(*contents: object) -> dict:
    return {"messages": [SYSTEM, *({"role": "user", "content": c} for c in contents)]}


def key(fields: dict, salt: bytes = SALT, blocks: int = 2) -> int | None:
    return prefix_key(fields, salt, blocks)


def test_prompts_that_begin_alike_have_one_key():
    assert key(messages("one")) == key(messages("two", "three"))
    assert key(messages("one")) != key({"messages": [{"role": "user", "content": "one"}]})


def test_only_whole_blocks_count_so_that_a_short_prefix_is_shared_too():
    system = {"role": "system", "content": "x" * 700}
    one = {"messages": [system, {"role": "user", "content": "one"}]}
    two = {"messages": [system, {"role": "user", "content": "two"}]}
    assert key(one, blocks=4) == key(two, blocks=4)
    three = {"messages": [system, {"role": "user", "content": "y" * BLOCK_BYTES}]}
    assert key(one, blocks=4) != key(three, blocks=4)


def test_a_prompt_below_one_block_is_a_key_by_itself():
    assert key({"prompt": "a"}) != key({"prompt": "b"})
    assert key({"prompt": "a"}) == key({"prompt": "a"})
    assert key({"prompt": ""}) is None
    assert key({}) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": ["one", "two"]},
        {"prompt": [1, 2, 3]},
        {"prompt": [[1, 2], [3]]},
        {"input": "what is embedded"},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
        {"messages": [{"role": "assistant", "content": None}]},
    ],
)
def test_every_form_of_a_prompt_has_a_key(fields):
    assert isinstance(key(fields), int)


def test_tenants_do_not_share_a_prefix_unless_it_is_the_operators():
    other = key_salt(2, "chat", shared=False)
    assert key(messages("one")) != key(messages("one"), other)
    assert key_salt(1, "chat", shared=True) == key_salt(2, "chat", shared=True)
    assert conversation_key(b"c", SALT) != conversation_key(b"c", other)


def test_no_more_of_a_long_prompt_is_touched_than_counts():
    class Untouched(dict):
        def __getitem__(self, name):
            raise AssertionError("it lies beyond the blocks that count")

    assert key({"messages": [SYSTEM, Untouched()]}) == key(messages("one"))


def test_a_replica_keeps_its_place_through_launches_and_shares_it_with_no_other():
    assert replica_seed("d", 1) == replica_seed("d", 1)
    assert len({replica_seed(name, n) for name in "ab" for n in range(100)}) == 200


# --- rules ---

ASKED = Asked("acme", "standard", 1000, 13, {b"x-tier": b"gold"})


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({}, True),
        ({"tenants": ("acme", "other")}, True),
        ({"tenants": ("other",)}, False),
        ({"priorities": ("standard",)}, True),
        ({"priorities": ("batch",)}, False),
        ({"input_tokens_min": 1000}, True),
        ({"input_tokens_min": 1001}, False),
        ({"input_tokens_max": 1000}, True),
        ({"input_tokens_max": 999}, False),
        ({"hours": (13, 14)}, True),
        ({"hours": (12, 13)}, False),
        ({"hours": (22, 14)}, True),
        ({"hours": (22, 6)}, False),
        ({"header": ("x-tier", "gold")}, True),
        ({"header": ("x-tier", "iron")}, False),
        ({"header": ("x-other", "gold")}, False),
        ({"tenants": ("acme",), "priorities": ("batch",)}, False),
    ],
)
def test_a_rule_matches_all_that_it_names(rule, matches):
    there = (target("there"),)
    seen = narrowed(route("chat", target("d"), rules=(RuleInfo(there, **rule),)), ASKED)
    assert seen.targets == (there if matches else (target("d"),))


def test_the_first_rule_that_matches_decides():
    rules = (
        RuleInfo((target("a"),), tenants=("nobody",)),
        RuleInfo((target("b"),)),
        RuleInfo((target("c"),)),
    )
    assert narrowed(route(rules=rules), ASKED).targets[0].deployment == "b"


def test_hours_are_of_the_day_in_utc():
    assert [hour_of(at) for at in (0, 3599, 3600, 86_399, 86_400)] == [0, 0, 1, 23, 0]
