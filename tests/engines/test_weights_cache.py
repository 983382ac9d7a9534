"""The cache of weights: the longest unused give way, and what is in use never does."""

import json
import os

import pytest

from engines import weights_cache
from engines.weights_cache import Cached, Evict, NoRoom, choose

OLD, NEW = Cached("old", 40, 1.0), Cached("new", 40, 2.0)
HELD = Cached("held", 40, 0.5, held=True)


@pytest.mark.parametrize(
    ("cached", "needed", "limit", "keys"),
    [
        ([OLD, NEW], 20, 100, ()),
        ([OLD, NEW], 21, 100, ("old",)),
        ([NEW, OLD], 61, 100, ("old", "new")),
        ([OLD, HELD, NEW], 20, 100, ("old",)),
        ([OLD, HELD, NEW], 60, 100, ("old", "new")),
        ([OLD, NEW], 10**9, 0, ()),
        ([OLD, NEW], 0, 50, ("old",)),
        ([], 100, 100, ()),
    ],
)
def test_the_longest_unused_gives_way(cached, needed, limit, keys):
    assert choose(cached, needed, limit) == Evict(keys)


@pytest.mark.parametrize(("needed", "limit"), [(61, 100), (101, 100)])
def test_what_is_in_use_stays_and_the_refusal_says_what_to_do(needed, limit):
    found = choose([OLD, HELD], needed, limit)
    assert isinstance(found, NoRoom)
    assert "raise WEIR_WEIGHTS_GIB, or move a replica away" in found.reason


@pytest.fixture
def root(tmp_path):
    for number, name in enumerate(("a", "b", "c")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"0" * 1000)
        manifest = folder / weights_cache.MANIFEST
        manifest.write_text(json.dumps({"source": {"path": name}}))
        os.utime(manifest, (number, number))
    return tmp_path


def there(root) -> list[str]:
    return [one.key for one in weights_cache.cached(root)]


def test_room_is_made_without_what_a_replica_holds(root):
    assert weights_cache.hold(root, "a", "replica-1")
    assert weights_cache.make_room(root, 1000, 3500) == Evict(("b",))
    assert there(root) == ["a", "c"]
    assert not weights_cache.hold(root, "b", "replica-2")


def test_what_was_let_go_was_used_until_then(root):
    weights_cache.hold(root, "a", "replica-1")
    weights_cache.release(root, "replica-1")
    assert weights_cache.make_room(root, 0, 1500) == Evict(("b", "c"))
    assert there(root) == ["a"]


def test_nothing_is_removed_where_it_would_not_help(root):
    weights_cache.hold(root, "a", "replica-1")
    assert isinstance(weights_cache.make_room(root, 3000, 3500), NoRoom)
    assert there(root) == ["a", "b", "c"]


def test_holds_of_replicas_that_ended_without_a_word_are_dropped(root):
    weights_cache.hold(root, "a", "replica-1")
    weights_cache.hold(root, "a", "replica-2")
    weights_cache.release_others(root, {"replica-2"})
    assert weights_cache.holders(root, "a") == ["replica-2"]


def test_leftovers_are_swept_and_fresh_parts_stay(root):
    (root / "d.removed").mkdir()
    for name in ("fresh", "stale"):
        (root / f"{name}.partial").mkdir()
        (root / f"{name}.partial" / "m.part").write_bytes(b"1")
    for path in (root / "stale.partial" / "m.part", root / "stale.partial"):
        os.utime(path, (1, 1))
    weights_cache.sweep(root)
    assert [path.name for path in root.glob("*.*") if path.is_dir()] == ["fresh.partial"]
