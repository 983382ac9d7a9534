"""Where weights come from: which sources there are, what each must name, and its key (pure).

Every source names content that cannot change: a commit, or the SHA-256 of what is fetched.
"""

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePosixPath

from engines.spec import BadSpec

SHAPES = (
    "{pypi, release, sha256}, {huggingface, revision}, {modelscope, revision}, {s3, sha256} or "
    "{path}"
)
MEMBERS = {
    "pypi": {"pypi", "release", "sha256"},
    "huggingface": {"huggingface", "revision"},
    "modelscope": {"modelscope", "revision"},
    "s3": {"s3", "sha256"},
    "path": {"path"},
}
PARTS_MAX = 256
# What an owner may allow of weights: they run code of whoever made them.
UNSAFE = ("pickle", "trust_remote_code")
PATH_CHARACTERS_MAX = 500
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_RELEASE = re.compile(r"[0-9][0-9A-Za-z.+!_-]{0,63}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[A-Za-z0-9][\w.-]{0,95}){1,8}", re.ASCII)

Found = list[tuple[str, str]]  # member, what is wrong with it


def problems(source: Mapping) -> Found:
    """What is wrong, by member; "" is the source itself."""
    kinds = [kind for kind in MEMBERS if kind in source]
    if len(kinds) != 1 or set(source) - {"parts"} != MEMBERS[kinds[0]]:
        return [("", _shape_of(source, kinds))]
    if "parts" in source and kinds != ["pypi"]:
        return [("parts", "belong to packages of PyPI only")]
    return _CHECKS[kinds[0]](source)


def key_of(source: Mapping, unsafe: Collection[str] = ()) -> str:
    """The name of its folder in the cache: equal content, equal key. BadSpec if it is odd."""
    for member, what in problems(source):
        name = f"source.{member}" if member else "source"
        raise BadSpec(f"{name} {what}")
    if "path" in source:
        return source["path"]
    suffix = "".join(f"-{word}" for word in sorted(unsafe))
    # Cut, so that it fits a folder's name: the digest at its end tells sources apart.
    if "pypi" in source:
        return f"{source['pypi'][:80]}-{source['release'][:40]}-{source['sha256'][:12]}{suffix}"
    if "s3" in source:
        name = f"s3--{source['s3'].replace('/', '--')}"
        return f"{name[:120]}-{source['sha256'][:12]}{suffix}"
    store = "" if "huggingface" in source else "modelscope--"
    name = (source.get("huggingface") or source["modelscope"]).replace("/", "--", 1)
    return f"{store}{name[:120]}-{source['revision'][:12]}{suffix}"


def told(source: Mapping) -> tuple[tuple[str, str], ...]:
    """As people read it, member by member; of parts their names and releases."""
    return tuple((name, _told(value)) for name, value in source.items())


def _told(value: object) -> str:
    if not isinstance(value, list):
        return str(value)
    return ", ".join(f"{part.get('pypi')} {part.get('release')}" for part in value)


def _shape_of(source: Mapping, kinds: list[str]) -> str:
    if kinds == ["pypi"] and "sha256" not in source:
        return (
            f"is {SHAPES}; of a package the SHA-256 of its wheel is needed, and `parts` for the "
            "packages that it is made of: pip hash FILE tells it"
        )
    return f"is {SHAPES}"


def _pypi(source: Mapping) -> Found:
    parts = source.get("parts") or []
    found = _package(source, "")
    if not isinstance(parts, list | tuple) or len(parts) > PARTS_MAX:
        return [*found, ("parts", f"is a list of at most {PARTS_MAX} packages")]
    for number, part in enumerate(parts):
        if not isinstance(part, Mapping) or set(part) != MEMBERS["pypi"]:
            found.append((f"parts[{number}]", "is {pypi, release, sha256}"))
        else:
            found += _package(part, f"parts[{number}].")
    return found


def _package(source: Mapping, where: str) -> Found:
    found = []
    if not _PACKAGE.fullmatch(str(source["pypi"])):
        found.append((f"{where}pypi", f"{source['pypi']!r} is no package name"))
    if not _RELEASE.fullmatch(str(source["release"])):
        found.append((f"{where}release", f"{source['release']!r} is no release: 1.0.0"))
    return found + _sha256(source, where, "its wheel")


def _sha256(source: Mapping, where: str, of: str) -> Found:
    if _SHA256.fullmatch(str(source["sha256"])):
        return []
    return [(f"{where}sha256", f"is the SHA-256 of {of}, 64 hexadecimal digits")]


def _repository(kind: str) -> Callable[[Mapping], Found]:
    def check(source: Mapping) -> Found:
        found = []
        if not _REPOSITORY.fullmatch(str(source[kind])):
            found.append((kind, "is an organisation and a name: org/name"))
        if not _COMMIT.fullmatch(str(source["revision"])):
            what = "is a commit, 40 hexadecimal digits: a branch or tag may move"
            found.append(("revision", what))
        return found

    return check


def _s3(source: Mapping) -> Found:
    found = _sha256(source, "", "the file SHA256SUMS there, which names all others with theirs")
    if not _BUCKET.fullmatch(str(source["s3"])):
        found.insert(0, ("s3", "is a bucket and a folder in it: models/org/name"))
    return found


def _path(source: Mapping) -> Found:
    path = PurePosixPath(str(source["path"]))
    if not path.is_absolute() or ".." in path.parts:
        return [("path", "is an absolute path without ..: /models/x")]
    if len(str(path)) > PATH_CHARACTERS_MAX or not str(path).isprintable():
        return [("path", f"is longer than {PATH_CHARACTERS_MAX} characters, or not printable")]
    return []


_CHECKS: dict[str, Callable[[Mapping], Found]] = {
    "pypi": _pypi,
    "huggingface": _repository("huggingface"),
    "modelscope": _repository("modelscope"),
    "s3": _s3,
    "path": _path,
}
