"""Runs pip in an engine's environment: what it is doing, and why it failed, in a sentence."""

import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from engines.installs import InstallFailed

LINES_KEPT = 200
_TIMEOUT_SECONDS = 60
_NO_NETWORK = re.compile(
    r"Temporary failure in name resolution|Name or service not known|Network is unreachable"
    r"|Failed to establish a new connection|Connection refused|ConnectTimeoutError|Read timed out"
    r"|ReadTimeoutError|ConnectionResetError|Cannot connect to proxy|CERTIFICATE_VERIFY_FAILED"
)
_NO_WHEEL = re.compile(
    r"No matching distribution found for (\S+)|Could not find a version that satisfies the "
    r"requirement (\S+)"
)
_DISK_FULL = re.compile(r"No space left on device|Disk quota exceeded")
_ERROR = re.compile(r"^ERROR: (.+)")
_DOWNLOAD = re.compile(r"\s*Downloading (\S+?)(?:\.metadata)? \((.+?)\)")
_WHEEL = re.compile(r"^([A-Za-z0-9_.]+?)-\d")
_NOISE = re.compile(r"WARNING: Location .* is ignored|Looking in |Requirement already|\[notice\]")


class NoWheel(InstallFailed):
    """pip's sources have no wheel for this Python and processor."""


def install(
    python: Path, arguments: Sequence[str], on_step: Callable[[str], None], offline: str = ""
) -> None:
    """`pip install` from wheels only: nothing is built, so no code of a package runs.

    Python compiles what it imports; compiling all of it takes a minute and 400 MB. `offline` is a
    folder of wheels: with it no index is asked.
    """
    _run(python, ["install", "--no-compile", *_source(offline), *arguments], on_step)


def download(
    python: Path, wanted: str, folder: Path, on_step: Callable[[str], None], offline: str = ""
) -> None:
    """One wheel, and none of what it depends on."""
    arguments = ["--no-deps", "--dest", str(folder), *_source(offline), wanted]
    _run(python, ["download", *arguments], on_step)


def _source(offline: str) -> list[str]:
    """Isolated: neither the environment nor a configuration names another source beside it."""
    return ["--isolated", "--no-index", "--find-links", offline] if offline else []


def _run(python: Path, arguments: Sequence[str], on_step: Callable[[str], None]) -> None:
    verb, *rest = arguments
    argv = [
        *(str(python), "-m", "pip", verb),
        *("--only-binary", ":all:", "--no-input", "--disable-pip-version-check"),
        *("--progress-bar", "off", "--timeout", str(_TIMEOUT_SECONDS)),
        *rest,
    ]
    lines: deque[str] = deque(maxlen=LINES_KEPT)
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            if not _NOISE.search(line):
                lines.append(line.rstrip())
                sys.stdout.write(line)  # the installer's log
                if step := read_step(line):
                    on_step(step)
    if process.returncode:
        raise explain("\n".join(lines), str(python))


def read_step(line: str) -> str | None:
    """What pip is at, of a line of its output."""
    if found := _DOWNLOAD.match(line):
        wheel, size = found.groups()
        name = _WHEEL.match(wheel.rsplit("/", 1)[-1])
        return (
            None
            if ".metadata" in line
            else f"downloads {name.group(1) if name else wheel} ({size})"
        )
    if line.startswith("Processing ") and (name := _WHEEL.match(line.rsplit("/", 1)[-1])):
        return f"takes {name.group(1)} from this machine"
    if line.startswith("Collecting "):
        return f"looks for {line.split()[1]}"
    if line.startswith("Installing collected packages"):
        return "unpacks what it downloaded"
    return None


def explain(output: str, python: str) -> InstallFailed:
    if _DISK_FULL.search(output):
        return InstallFailed("the disk is full: free some space, or choose another place")
    # Without a network pip also says that there is no such package, which misleads.
    if found := _NO_NETWORK.search(output):
        return InstallFailed(
            f"no network: pip says {found.group()!r}; connect this host, or point pip at a mirror "
            "(pip config set global.index-url URL), or set WEIR_WHEELS to a folder of wheels"
        )
    if found := _NO_WHEEL.search(output):
        wanted = next(group for group in found.groups() if group)
        return NoWheel(
            f"no wheel of {wanted} for {python} in pip's sources: use another Python "
            "(WEIR_ENGINE_PYTHON), or add the wheel to the folder of WEIR_WHEELS, if that is set"
        )
    errors = [found.group(1) for line in output.splitlines() if (found := _ERROR.match(line))]
    last = output.splitlines()[-1] if output else "it said nothing"
    return InstallFailed(f"pip failed: {errors[0] if errors else last}")
