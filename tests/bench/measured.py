"""Visits of targets with one workload, and what they gave."""

import json
import statistics
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import promises, targets
from tests.bench.place import Booked
from tests.bench.report import say
from tests.bench.targets import OTHER_CORE, Server

ROUNDS = 4
SECONDS = 2.0
WARM_SECONDS = 1.0
_MEMORY_EVERY_SECONDS = 0.5


@dataclass(frozen=True, eq=False)
class Workload:
    """CPU time is divided by the number of `per`. `others` is what all but Weir are asked too."""

    name: str
    connections: int
    per: str  # calls | chunks
    asked: dict
    others: dict = field(default_factory=dict)
    model: str = "bench"  # of Weir
    may_fail: bool = False  # more than a core may be able to carry


@dataclass
class Measured:
    """One target at one workload: a figure of each round, and the best, since noise only adds."""

    cpu_microseconds: list[float] = field(default_factory=list)
    stores_microseconds: list[float] = field(default_factory=list)
    got: list[dict] = field(default_factory=list)
    per_second: list[float] = field(default_factory=list)


class Bench:
    def __init__(
        self, folder: Path, weir: Server, upstreams: tuple[Server, ...], stores: list[Server]
    ) -> None:
        self.weir = weir
        self.upstreams = upstreams
        self.rounds = ROUNDS
        self.sent = Booked(0, 0)
        self.memory_mib = 0.0  # of the worker, at most
        self._folder = folder
        self._stores = stores
        self._found: dict[tuple[Workload, str], Measured] = {}

    def visit(
        self,
        workload: Workload,
        servers: list[Server],
        *,
        rounds: int = ROUNDS,
        seconds: float = SECONDS,
    ) -> None:
        order = list(servers)
        for server in order:
            self._load(server, workload, WARM_SECONDS)
        for _ in range(rounds):
            for server in order:
                self._visit(server, workload, seconds)
            order.reverse()
        figures = [f"{name} {self.cpu(workload, name):.1f}" for name in self.names(workload)]
        say(f"{workload.name}: CPU µs {', '.join(figures)}")

    def count(self, before: dict[str, int], after: dict[str, int]) -> None:
        """What Weir has sent to an upstream in between."""
        events, tokens = self.sent
        events += after["answers"] - before["answers"]
        self.sent = Booked(events, tokens + after["tokens"] - before["tokens"])

    # --- what came out ---

    def names(self, workload: Workload) -> list[str]:
        return [name for at, name in self._found if at is workload]

    def cpu(self, workload: Workload, name: str) -> float | None:
        found = self._found.get((workload, name))
        return min(found.cpu_microseconds) if found else None

    def stores_cpu(self, workload: Workload) -> float:
        return min(self._found[workload, self.weir.name].stores_microseconds)

    def rate(self, workload: Workload, name: str) -> float:
        return max(self._found[workload, name].per_second)

    def added_ms(self, name: str, direct: str, workload: Workload) -> float | None:
        if (workload, name) not in self._found:
            return None
        firsts = [
            statistics.median(one["first_microseconds"] for one in self._found[workload, who].got)
            for who in (name, direct)
        ]
        return round((firsts[0] - firsts[1]) / 1000, 3)

    def bad(self, workload: Workload, name: str) -> int:
        return self._found[workload, name].got[-1]["bad"]

    def gaps_ms(self, workload: Workload, name: str) -> tuple[float, float]:
        got = self._found[workload, name].got[-1]
        return got["gap_microseconds"] / 1000, got["gap_p99_microseconds"] / 1000

    def gap_ratio(self, name: str, direct: str, workload: Workload) -> float:
        return round(self.gaps_ms(workload, name)[1] / self.gaps_ms(workload, direct)[1], 2)

    # --- a visit ---

    def _visit(self, server: Server, workload: Workload, seconds: float) -> None:
        measured = self._found.setdefault((workload, server.name), Measured())
        before, stores = server.cpu_nanoseconds(), self._stores_nanoseconds()
        got = self._load(server, workload, seconds)
        spent, count = server.cpu_nanoseconds() - before, got[workload.per]
        measured.cpu_microseconds.append(spent / 1000 / count)
        measured.stores_microseconds.append((self._stores_nanoseconds() - stores) / 1000 / count)
        measured.per_second.append(count / seconds)
        measured.got.append(got)

    def _stores_nanoseconds(self) -> int:
        return sum(store.cpu_nanoseconds() for store in self._stores)

    def _load(self, server: Server, workload: Workload, seconds: float) -> dict:
        is_weir = server is self.weir
        before = [promises.stats(upstream) for upstream in self.upstreams]
        asked = workload.asked if is_weir else workload.asked | workload.others
        model = workload.model if is_weir else "bench"
        (self._folder / "request").write_bytes(promises.request_of(asked, model=model))
        words = [server.port, workload.connections, seconds, self._folder / "request"]
        argv = targets.pinned(OTHER_CORE, [str(self._folder / "load"), *map(str, words)])
        done = threading.Event()
        if is_weir:
            threading.Thread(target=self._watch_memory, args=(done,), daemon=True).start()
        try:
            ran = subprocess.run(argv, check=True, capture_output=True, timeout=seconds + 90)
        finally:
            done.set()
        got = json.loads(ran.stdout)
        must_hold = is_weir and not workload.may_fail  # a peer that fails some is slow enough
        if got["bad"] and must_hold or not got[workload.per]:
            raise SystemExit(f"{server.name} on '{workload.name}': {got} {ran.stderr.decode()}")
        if is_weir:
            for upstream, seen in zip(self.upstreams, before, strict=True):
                self.count(seen, promises.stats(upstream))
        return got

    def _watch_memory(self, done: threading.Event) -> None:
        worker = self.weir.pids()[1:]
        while not done.wait(_MEMORY_EVERY_SECONDS):
            self.memory_mib = max(self.memory_mib, self.weir.memory_mib(worker))
