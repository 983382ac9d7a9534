"""Which files of a repository are fetched (pure): a model's, and nothing that runs as code."""

from collections.abc import Collection
from fnmatch import fnmatch

from engines.model_folder import PICKLES

PLAIN = (
    *("*.json", "*.safetensors", "*.model", "*.jinja", "*.txt"),
    *("LICENSE*", "NOTICE*", "README*", "*TERMS*"),
)

CODE = ("*.py",)
# Of another format beside the same weights.
OTHERS = ("consolidated*", "training_args.bin", "optimizer*", "scheduler*", "rng_state*")


def chosen(names: Collection[str], unsafe: Collection[str] = ()) -> list[str]:
    """Of the top folder only: a name with a slash could lead anywhere."""
    plain = [name for name in names if "/" not in name and not _is(name, OTHERS)]
    found = [name for name in plain if _is(name, PLAIN)]
    if "trust_remote_code" in unsafe:
        found += [name for name in plain if _is(name, CODE)]
    if not any(_is(name, ("*.safetensors",)) for name in plain):
        packed = [name for name in plain if _is(name, ("*.gguf",))]
        if "pickle" in unsafe:
            found += [name for name in plain if _is(name, PICKLES)]
        elif len(packed) == 1:
            found += packed  # one file: it can be converted
    return found


def refusal(names: Collection[str]) -> str:
    """Why nothing of a repository without safetensors is taken."""
    if pickles := [name for name in names if _is(name, PICKLES)]:
        return (
            f"its weights are pickles ({pickles[0]}), which run code when they are loaded: take a "
            "repository with safetensors, or have an owner allow it (unsafe: {pickle: why})"
        )
    if any(_is(name, ("*.gguf",)) for name in names):
        return "it holds several GGUF files: take the repository with safetensors"
    return "it holds no weights: no *.safetensors"


def has_weights(names: Collection[str]) -> bool:
    return any(_is(name, ("*.safetensors", "*.gguf", *PICKLES)) for name in names)


def _is(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
