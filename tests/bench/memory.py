"""1,000 streams for ten minutes through one gateway process: is its memory small, and flat?

make bench-memory
"""

import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from tests.bench import promises, targets
from tests.bench.gateway import SOURCES, THOUSAND
from tests.bench.place import Place
from tests.bench.report import Target, finish, say, table
from tests.bench.targets import Server

SECONDS = 600
EVERY_SECONDS = 1.0
SETTLED_SECONDS = 60  # buffers, pools and counters have come up to their size


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="weir-bench-"))
    folder.chmod(0o711)  # servers run as another account and pass through
    place, upstreams = Place(folder), []
    try:
        for name in ("upstream", "load"):
            command = ["gcc", "-O2", "-o", str(folder / name), str(SOURCES / f"{name}.c")]
            subprocess.run(command, check=True, timeout=60)
        upstreams += [targets.upstream(folder)]
        place.begin(upstreams[0].port, upstreams[0].port)
        seen, got = _stream(folder, place.gateway("Weir"))
    finally:
        for server in [*place.servers, *upstreams]:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    _report(seen, got)


def _stream(folder: Path, weir: Server) -> tuple[list[tuple[float, float]], str]:
    """(seconds, MiB) of the worker, and what the caller counted."""
    (folder / "request").write_bytes(promises.request_of(THOUSAND.asked))
    words = [weir.port, THOUSAND.connections, SECONDS, folder / "request"]
    argv = targets.pinned(targets.OTHER_CORE, [str(folder / "load"), *map(str, words)])
    seen: list[tuple[float, float]] = []
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(weir, done, seen), daemon=True)
    watch.start()
    try:
        ran = subprocess.run(argv, check=True, capture_output=True, timeout=SECONDS + 90)
    finally:
        done.set()
        watch.join()
    return seen, ran.stdout.decode().strip()


def _watch(weir: Server, done: threading.Event, seen: list[tuple[float, float]]) -> None:
    worker, began = weir.pids()[1:], time.monotonic()
    while not done.wait(EVERY_SECONDS):
        seen.append((time.monotonic() - began, weir.memory_mib(worker)))


def _report(seen: list[tuple[float, float]], got: str) -> None:
    settled = [mib for at, mib in seen if at >= SETTLED_SECONDS]
    minutes = [
        [f"{minute + 1}", f"{max(part):.1f}"]
        for minute in range(SECONDS // 60)
        if (part := [mib for at, mib in seen if minute * 60 <= at < minute * 60 + 60])
    ]
    page = table(["minute", "resident MiB at most"], minutes)
    page += (
        f"\n\n1,000 streams of 50 chunks a second were asked for; the caller counted `{got}`."
        f"\nGrowth is from the second {SETTLED_SECONDS} to the last, one worker's resident memory."
    )
    say(page)
    wanted = {
        "memory_mib": Target(round(max(mib for _, mib in seen), 1), 120),
        "memory_growth_mib": Target(round(settled[-1] - settled[0], 1), 2),
    }
    finish("memory", "The gateway's memory over ten minutes", page, wanted)


if __name__ == "__main__":
    main()
