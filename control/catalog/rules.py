"""What a version may be: engine, artifact, arguments; and the digest that makes it immutable."""

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from control import checks
from control.catalog.batch import batch_problems
from control.checks import Problem
from engines import kinds as engines
from engines.arguments import Argument, Value, check_arguments
from engines.spec import BadSpec

IMMUTABLE = "versions are immutable: name a new one"
KINDS = ("vllm", "external", "stub")
# A release is added here when its command line, metrics and log lines have been tried.
ENGINE_VERSIONS = {"vllm": ("0.32.0",)}
ARGUMENTS_MAX = 64
CONTEXT_TOKENS_MAX = 2**24
MEMORY_MAX = 2**40
URL_CHARACTERS_MAX = 500
# Which arguments an engine takes, and who decides those that it takes from Weir.
ARGUMENTS = {
    **{name: (kind.arguments, kind.elsewhere) for name, kind in engines.KINDS.items()},
    "external": ({"max_model_len": Argument.whole(1)}, {}),
}
WITHHELD = {
    "trust_remote_code": "code that comes with weights is not run: Weir",
    "scheduling_policy": "the order of calls: the gateway",
    "speculative_config": "what guesses: speculative_method and speculative_tokens say it, Weir",
    "spec_model": "a draft model is weights of its own, which no version carries: Weir",
}
MEMBERS_OF_SOURCE = {
    "pypi": {"pypi", "release"},
    "huggingface": {"huggingface", "revision"},
    "path": {"path"},
}
_PACKAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_RELEASE = re.compile(r"[0-9][0-9A-Za-z.+!_-]{0,63}")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_URL = re.compile(
    r"https?://(?P<user>[^/@]*@)?"
    r"([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    r"(:(?P<port>[0-9]{1,5}))?"
    r"(/[A-Za-z0-9._~%/-]*)?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class EngineWanted:
    kind: str
    version: str = ""
    url: str = ""
    served_name: str = ""

    @property
    def stored(self) -> dict[str, str]:
        parts = {"kind": self.kind, "version": self.version, "url": self.url}
        parts["served_name"] = self.served_name
        return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True)
class VersionWanted:
    """Artifact, engine and arguments: the content that never changes under one name."""

    engine: EngineWanted
    source: dict[str, str] | None = None
    arguments: dict[str, Value] = field(default_factory=dict)
    memory: dict[str, int] | None = None
    upstream_key: str | None = field(default=None, repr=False)  # may change: it is no content

    @property
    def content(self) -> dict:
        return {
            "engine": self.engine.stored,
            "source": self.source,
            "arguments": self.arguments,
            "memory": self.memory,
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the content, the same however its members are ordered."""
        text = json.dumps(self.content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def version_problems(
    model: str, version: str, content: VersionWanted, *, stub_allowed: bool
) -> list[Problem]:
    return [
        *checks.model_name("model", model),
        *checks.version_name("name", version),
        *_engine_problems(content.engine, stub_allowed),
        *_source_problems(content),
        *_argument_problems(content),
        *_memory_problems(content),
        *upstream_key_problems(content),
    ]


def _engine_problems(engine: EngineWanted, stub_allowed: bool) -> list[Problem]:
    match engine.kind:
        case "vllm":
            known = ENGINE_VERSIONS["vllm"]
            if engine.version in known:
                return _absent("engine", {"url": engine.url, "served_name": engine.served_name})
            what = f"vllm {engine.version or '(none)'} is not supported; {', '.join(known)} is"
            return [Problem("engine.version", what)]
        case "external":
            return [
                *_url_problems(engine.url),
                *checks.text("engine.served_name", engine.served_name, 200),
                *([] if engine.served_name else [Problem("engine.served_name", "is required")]),
                *_absent("engine", {"version": engine.version}),
            ]
        case "stub":
            if stub_allowed:
                return _absent("engine", {"url": engine.url, "served_name": engine.served_name})
            what = "the stub engine has no model; set WEIR_ALLOW_STUB=1 to test with it"
            return [Problem("engine.kind", what)]
    return checks.one_of("engine.kind", engine.kind, KINDS)


def _absent(path: str, members: dict[str, object]) -> list[Problem]:
    what = "does not belong to an engine of this kind"
    return [Problem(f"{path}.{name}", what) for name, value in members.items() if value]


def _url_problems(url: str) -> list[Problem]:
    if len(url) > URL_CHARACTERS_MAX:
        return [Problem("engine.url", f"is longer than {URL_CHARACTERS_MAX} characters")]
    parts = _URL.fullmatch(url)
    if parts is None or not 0 < int(parts["port"] or 80) < 65536:
        return [Problem("engine.url", "is required without a query: http://127.0.0.1:9000")]
    if parts["user"]:
        return [Problem("engine.url", "holds a secret: name it with api_key_env instead")]
    return []


def _source_problems(content: VersionWanted) -> list[Problem]:
    source = content.source
    if content.engine.kind != "vllm" and source is None:
        return []
    if content.engine.kind == "external":
        return [Problem("source", "an external engine brings its own weights: leave it out")]
    if not source:
        return [
            Problem("source", "is required: {pypi, release}, {huggingface, revision} or {path}")
        ]
    kinds = [kind for kind in MEMBERS_OF_SOURCE if kind in source]
    if len(kinds) != 1 or set(source) != MEMBERS_OF_SOURCE[kinds[0]]:
        return [Problem("source", "is {pypi, release}, {huggingface, revision} or {path}")]
    return _SOURCES[kinds[0]](source)


def _pypi_problems(source: dict[str, str]) -> list[Problem]:
    problems = []
    if not _PACKAGE.fullmatch(source["pypi"]):
        problems.append(Problem("source.pypi", f"{source['pypi']!r} is no package name"))
    if not _RELEASE.fullmatch(source["release"]):
        problems.append(Problem("source.release", f"{source['release']!r} is no release: 1.0.0"))
    return problems


def _huggingface_problems(source: dict[str, str]) -> list[Problem]:
    problems = []
    if not _REPOSITORY.fullmatch(source["huggingface"]):
        problems.append(Problem("source.huggingface", "is an organisation and a name: org/name"))
    if not _COMMIT.fullmatch(source["revision"]):
        what = "is a commit, 40 hexadecimal digits: a branch or tag may move"
        problems.append(Problem("source.revision", what))
    return problems


def _path_problems(source: dict[str, str]) -> list[Problem]:
    path = PurePosixPath(source["path"])
    if not path.is_absolute() or ".." in path.parts:
        return [Problem("source.path", "is an absolute path without ..: /models/x")]
    return checks.text("source.path", source["path"], 500)


_SOURCES = {"pypi": _pypi_problems, "huggingface": _huggingface_problems, "path": _path_problems}


def _argument_problems(content: VersionWanted) -> list[Problem]:
    known, elsewhere = ARGUMENTS.get(content.engine.kind, ARGUMENTS["vllm"])
    offered = {name: known[name] for name in known if name not in WITHHELD}
    problems = checks.whole("arguments", len(content.arguments), 0, ARGUMENTS_MAX)
    for name, value in content.arguments.items():
        try:
            check_arguments(content.engine.kind, {name: value}, offered, elsewhere | WITHHELD)
        except BadSpec as bad:
            what = str(bad).removeprefix(f"argument {name!r}").lstrip(": ")
            problems.append(Problem(f"arguments.{name}", what))
    if not problems and (length := content.arguments.get("max_model_len")) is not None:
        problems = checks.whole("arguments.max_model_len", length, 1, CONTEXT_TOKENS_MAX)
    return problems or batch_problems(content.arguments, content.memory)


def _memory_problems(content: VersionWanted) -> list[Problem]:
    memory = content.memory
    if memory is None:
        return []
    if content.engine.kind == "external" and set(memory) != {"calls"}:
        return [Problem("memory", "of an external engine is {calls: N}: how many it takes at once")]
    if len(memory) != 1 or not set(memory) <= {"kv_tokens", "calls"}:
        return [Problem("memory", "is {kv_tokens: N} or {calls: N}")]
    return [
        problem
        for name, value in memory.items()
        for problem in checks.whole(f"memory.{name}", value, 1, MEMORY_MAX)
    ]


def upstream_key_problems(content: VersionWanted) -> list[Problem]:
    key = content.upstream_key
    if key is None:
        return []
    if content.engine.kind != "external":
        return [Problem("engine.api_key_env", "does not belong to an engine of this kind")]
    if not key or len(key) > 4096 or not (key.isascii() and key.isprintable()):
        return [Problem("engine.api_key_env", "names a key that is not printable ASCII")]
    return []
