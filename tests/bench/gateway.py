"""What the gateway costs: CPU microseconds per request and per chunk, beside its floor and nginx.

    make bench-gateway

Every target is started once, then visited in turn for each workload, the order reversed each round.
The target has one core, upstream and client the other. CPU time (user and system, all threads)
holds on a noisy machine where latencies do not; compare ratios of one run only.
"""

import json
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import targets
from tests.bench.report import Target, finish, say, table
from tests.bench.targets import KEY, OTHER_CORE, Server

ROUNDS = 5
SECONDS = 2.0
WARM_SECONDS = 1.0
SOURCES = Path(__file__).parent
WEIR, PLAIN, NGINX, UPSTREAM = "Weir", "plain asyncio relay", "nginx", "upstream"


@dataclass(frozen=True)
class Workload:
    """CPU time is divided by the number of `per`."""

    name: str
    connections: int
    per: str  # calls | chunks
    asked: str  # members of the request's body, as JSON


JSON = Workload("small JSON, 64 connections", 64, "calls", "{}")
PACED = Workload("64 streams at 10 ms", 64, "chunks", '{"stream": true, "seed": 10}')
BURST = Workload("64 streams in one burst", 64, "chunks", '{"stream": true, "max_tokens": 256}')
ONE = Workload("one stream", 1, "calls", '{"stream": true, "seed": 4, "max_tokens": 4}')
WORKLOADS = (JSON, PACED, BURST, ONE)


@dataclass
class Measured:
    """One target at one workload: a figure of each round, and the best, since noise only adds."""

    cpu_microseconds: list[float] = field(default_factory=list)
    first_microseconds: list[float] = field(default_factory=list)
    per_second: list[float] = field(default_factory=list)

    @property
    def cpu(self) -> float:
        return min(self.cpu_microseconds)

    @property
    def first(self) -> float:
        return statistics.median(self.first_microseconds)

    @property
    def rate(self) -> float:
        return max(self.per_second)


Results = dict[tuple[str, Workload], Measured]


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="weir-bench-"))
    folder.chmod(0o711)  # Valkey runs as another account and passes through
    servers: list[Server] = []
    try:
        for name in ("upstream", "load"):
            command = ["gcc", "-O2", "-o", str(folder / name), str(SOURCES / f"{name}.c")]
            subprocess.run(command, check=True, timeout=60)
        visited = _started(folder, servers)
        results = _measured(folder, visited)
        memory = {server.name: server.memory_mib() for server in visited}
    finally:
        for server in reversed(servers):
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    _report(results, memory)


def _started(folder: Path, servers: list[Server]) -> list[Server]:
    """What is visited; `servers` grows with all that must be stopped."""
    servers.append(targets.upstream(folder))
    engine_port = servers[0].port
    valkey, redis_url = targets.valkey(folder)
    servers.append(valkey)
    servers.append(targets.weir(folder, engine_port, redis_url))
    servers.append(targets.plain(engine_port))
    servers.extend(targets.nginx(folder, engine_port))
    if servers[-1].name != NGINX:
        say("nginx is not installed: compared with the plain relay only")
    return [server for server in servers if server is not valkey]


def _measured(folder: Path, servers: list[Server]) -> Results:
    results: Results = {}
    for workload in WORKLOADS:
        (folder / "request").write_bytes(_request(workload))
        visits = [s for s in servers if s.name != UPSTREAM or workload is ONE]
        for server in visits:
            _load(folder, server, workload, WARM_SECONDS)
        for _ in range(ROUNDS):
            for server in visits:
                measured = results.setdefault((server.name, workload), Measured())
                _visit(folder, server, workload, measured)
            visits.reverse()
        say(f"{workload.name}: {_line(results, workload)}")
    return results


def _visit(folder: Path, server: Server, workload: Workload, measured: Measured) -> None:
    before = server.cpu_nanoseconds()
    got = _load(folder, server, workload, SECONDS)
    spent = server.cpu_nanoseconds() - before
    measured.cpu_microseconds.append(spent / 1000 / got[workload.per])
    measured.first_microseconds.append(got["first_microseconds"])
    measured.per_second.append(got[workload.per] / SECONDS)


def _load(folder: Path, server: Server, workload: Workload, seconds: float) -> dict:
    words = [server.port, workload.connections, seconds, folder / "request"]
    argv = targets.pinned(OTHER_CORE, [str(folder / "load"), *map(str, words)])
    done = subprocess.run(argv, check=True, capture_output=True, timeout=seconds + 30)
    got = json.loads(done.stdout)
    if got["bad"] or not got[workload.per]:
        raise SystemExit(f"{server.name} on '{workload.name}': {got} {done.stderr.decode()}")
    return got


def _request(workload: Workload) -> bytes:
    system = "You are a careful assistant of a support desk. Answer briefly and cite the article. "
    asked = json.loads(workload.asked)
    body = {
        "model": "bench",
        "messages": [
            {"role": "system", "content": system * 4},
            {"role": "user", "content": "How do I reset my password without my phone?"},
        ],
        "max_tokens": 64,
        "temperature": 0.7,
        **asked,
    }
    if asked:
        body["stream_options"] = {"include_usage": True}
    text = json.dumps(body).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: bench\r\n"
        f"accept: */*\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text


# --- the page -------------------------------------------------------------------------------


def _line(results: Results, workload: Workload) -> str:
    named = {name: one for (name, at), one in results.items() if at is workload}
    return ", ".join(
        f"{name} {one.cpu:.1f} µs ({one.first:.0f} to the first byte)"
        for name, one in named.items()
    )


def _ratio(results: Results, workload: Workload, name: str) -> float:
    return round(results[WEIR, workload].cpu / results[name, workload].cpu, 2)


def _added(results: Results, name: str) -> float:
    return round(results[name, ONE].first - results[UPSTREAM, ONE].first)


def _report(results: Results, memory: dict[str, float]) -> None:
    names = [name for name in (WEIR, PLAIN, NGINX) if (name, JSON) in results]
    wanted = {
        "json_ratio_to_plain": Target(_ratio(results, JSON, PLAIN), 4),
        "stream_ratio_to_plain": Target(_ratio(results, PACED, PLAIN), 2),
        "ttft_added_microseconds": Target(_added(results, WEIR), 1000),
    }
    if NGINX in names:
        wanted["stream_ratio_to_nginx"] = Target(_ratio(results, PACED, NGINX), 3)
    rows = [
        [
            name,
            *(
                f"{results[name, w].cpu:.1f} ({results[name, w].cpu / results[PLAIN, w].cpu:.2f})"
                for w in (JSON, PACED, BURST)
            ),
            f"{results[name, JSON].rate:,.0f}",
            f"{_added(results, name)}",
            f"{memory[name]:.0f}",
        ]
        for name in names
    ]
    head = [
        "one core",
        "CPU µs per call, small JSON, 64 connections (× plain)",
        "CPU µs per chunk, 64 streams at 10 ms",
        "CPU µs per chunk, streams of 256 in one burst",
        "JSON calls per second",
        "TTFT added, one stream, µs",
        "memory MiB",
    ]
    page = table(head, rows)
    say(page)
    finish("gateway", "The gateway beside its floor and nginx", f"{page}\n\n{_NOTES}", wanted)


_NOTES = f"""
Best of {ROUNDS} rounds of {SECONDS:.0f} s, targets visited in turn, order reversed each round. The
target has one core, upstream and client the other. CPU is user and system time of the process tree
from `/proc/*/task/*/schedstat`.

Weir is one worker as `weir gateway` starts it. For each call it checks the key's digest, judges
every member of the body, asks Valkey for a rate and a slot (and gives the slot back), chooses a
replica, writes the body anew, writes `open` and `close` into the spool at once (fsynced in groups),
reads usage out of each chunk, takes out what the tenant did not ask for, and counts. The upstream
sends usage with each chunk when asked to, as vLLM does, so Weir reads longer chunks than the rest.
Shipping to PostgreSQL is the parent's work and is not in the figure.

The plain relay (`tests/bench/plain.py`) is the same technique (asyncio protocols, httptools,
uvloop) with nothing in it: parse, look one key up, relay. nginx is a proxy with neither keys,
limits nor metering.
"""


if __name__ == "__main__":
    main()
