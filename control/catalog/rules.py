"""What a version may be: engine, artifact, arguments; and the digest that makes it immutable."""

import hashlib
import json
import re
from dataclasses import dataclass, field

from control import checks
from control.catalog.batch import batch_problems
from control.checks import Problem
from engines import kinds as engines
from engines import sources
from engines.arguments import Argument, Value, check_arguments
from engines.requirements import unknown
from engines.spec import BadSpec
from engines.vllm.releases import RELEASES

IMMUTABLE = "versions are immutable: name a new one"
KINDS = ("vllm", "external", "stub")
ENGINE_VERSIONS = {"vllm": tuple(RELEASES)}
ARGUMENTS_MAX = 64
CONTEXT_TOKENS_MAX = 2**24
MEMORY_MAX = 2**40
URL_CHARACTERS_MAX = 500
UNSAFE_REASON_CHARACTERS_MAX = 500
# Which arguments an engine takes, and who decides those that it takes from Weir.
ARGUMENTS = {
    **{name: (kind.arguments, kind.elsewhere) for name, kind in engines.KINDS.items()},
    "external": ({"max_model_len": Argument.whole(1)}, {}),
}
WITHHELD = {
    "trust_remote_code": "code that comes with weights is not run unless an owner allows it "
    "(unsafe: {trust_remote_code: why}): Weir",
    "scheduling_policy": "the order of calls: the gateway",
    "speculative_config": "what guesses: speculative_method and speculative_tokens say it, Weir",
    "spec_model": "a draft model is weights of its own, which no version carries: Weir",
}
_URL = re.compile(
    r"https?://(?P<user>[^/@]*@)?"
    r"([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    r"(:(?P<port>[0-9]{1,5}))?"
    r"(/[A-Za-z0-9._~%/-]*)?"
)


@dataclass(frozen=True)
class EngineWanted:
    kind: str
    version: str = ""
    url: str = ""
    served_name: str = ""
    shared: bool = False  # an external one: others than Weir ask it too

    @property
    def stored(self) -> dict[str, str | bool]:
        parts = {"kind": self.kind, "version": self.version, "url": self.url}
        parts |= {"served_name": self.served_name, "shared": self.shared}
        return {name: value for name, value in parts.items() if value}


@dataclass(frozen=True)
class VersionWanted:
    """Artifact, engine and arguments: the content that never changes under one name."""

    engine: EngineWanted
    source: dict | None = None
    arguments: dict[str, Value] = field(default_factory=dict)
    memory: dict[str, int] | None = None
    unsafe: dict[str, str] | None = None  # what an owner allows of the weights → why
    upstream_key: str | None = field(default=None, repr=False)  # may change: it is no content

    @property
    def content(self) -> dict:
        parts = {
            "engine": self.engine.stored,
            "source": self.source,
            "arguments": self.arguments,
            "memory": self.memory,
        }
        # Named only where it is said, so that digests of other versions stay what they were.
        return parts | ({"unsafe": self.unsafe} if self.unsafe else {})

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
        *_unsafe_problems(content),
        *_argument_problems(content),
        *_memory_problems(content),
        *upstream_key_problems(content),
    ]


def _engine_problems(engine: EngineWanted, stub_allowed: bool) -> list[Problem]:
    match engine.kind:
        case "vllm":
            known = ENGINE_VERSIONS["vllm"]
            if engine.version in known:
                return _absent("engine", _of_external(engine))
            return [Problem("engine.version", unknown(engine.version, RELEASES))]
        case "external":
            return [
                *_url_problems(engine.url),
                *checks.text("engine.served_name", engine.served_name, 200),
                *([] if engine.served_name else [Problem("engine.served_name", "is required")]),
                *_absent("engine", {"version": engine.version}),
            ]
        case "stub":
            if stub_allowed:
                return _absent("engine", _of_external(engine))
            what = "the stub engine has no model; set WEIR_ALLOW_STUB=1 to test with it"
            return [Problem("engine.kind", what)]
    return checks.one_of("engine.kind", engine.kind, KINDS)


def _of_external(engine: EngineWanted) -> dict[str, object]:
    return {"url": engine.url, "served_name": engine.served_name, "shared": engine.shared}


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
        return [Problem("source", f"is required: {sources.SHAPES}")]
    return [
        Problem(f"source.{member}" if member else "source", what)
        for member, what in sources.problems(source)
    ]


def _unsafe_problems(content: VersionWanted) -> list[Problem]:
    """Each with a reason, and only where it can be meant."""
    unsafe = content.unsafe
    if unsafe is None:
        return []
    if content.engine.kind != "vllm":
        return [Problem("unsafe", "does not belong to an engine of this kind")]
    odd = [name for name in unsafe if name not in sources.UNSAFE]
    if odd or not unsafe:
        known = " or ".join(f"{name}: why" for name in sources.UNSAFE)
        return [Problem("unsafe", f"is {known}, not {', '.join(odd) or 'empty'}")]
    return [
        problem
        for name, reason in unsafe.items()
        for problem in [
            *checks.text(f"unsafe.{name}", reason, UNSAFE_REASON_CHARACTERS_MAX),
            *([] if reason.strip() else [Problem(f"unsafe.{name}", "wants the reason")]),
        ]
    ]


def _argument_problems(content: VersionWanted) -> list[Problem]:
    known, elsewhere = ARGUMENTS.get(content.engine.kind, ARGUMENTS["vllm"])
    withheld = {name: who for name, who in WITHHELD.items() if name not in (content.unsafe or {})}
    offered = {name: known[name] for name in known if name not in withheld}
    problems = checks.whole("arguments", len(content.arguments), 0, ARGUMENTS_MAX)
    for name, value in content.arguments.items():
        try:
            check_arguments(content.engine.kind, {name: value}, offered, elsewhere | withheld)
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
