"""What the gateway costs beside nginx and other gateways, and whether it keeps its promises.

    make bench-gateway

Every target is started once, then visited in turn for each workload, the order reversed each round.
The target has one core, upstream and client the other. CPU time (user and system, all threads of
the process tree) holds on a noisy machine where latencies do not; compare ratios of one run only.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.bench import peers, promises, targets
from tests.bench.measured import Bench, Workload
from tests.bench.place import Booked, Place
from tests.bench.report import ROOT, Target, finish, say, table

SOURCES = Path(__file__).parent
WEIR, PLAIN, NGINX, UPSTREAM = "Weir", "plain asyncio relay", "nginx", "upstream"
STREAMS_SECONDS = 15.0  # bench-memory has them for ten minutes
_TOLD = {"include_usage": True, "continuous_usage_stats": True}

JSON = Workload("small JSON, 64 connections", 64, "calls", {})
BARE = Workload("64 streams at 10 ms", 64, "chunks", {"stream": True, "seed": 10}, model="bare")
RICH = Workload(
    "64 streams at 10 ms, usage and token ids in each chunk",
    64,
    "chunks",
    {"stream": True, "seed": 10},
    others={"stream_options": _TOLD, "return_token_ids": True},
)
ONE = Workload("one stream", 1, "calls", {"stream": True, "seed": 4, "max_tokens": 4})
THOUSAND = Workload(
    "1,000 streams at 20 ms",
    1000,
    "chunks",
    {"stream": True, "seed": 20, "max_tokens": 256},
    others={"stream_options": _TOLD, "return_token_ids": True},
    may_fail=True,
)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="weir-bench-"))
    folder.chmod(0o711)  # servers run as another account and pass through
    place, servers = Place(folder), []
    try:
        for name in ("upstream", "load"):
            command = ["gcc", "-O2", "-o", str(folder / name), str(SOURCES / f"{name}.c")]
            subprocess.run(command, check=True, timeout=60)
        servers += [targets.upstream(folder), targets.upstream(folder, "bare")]
        place.begin(servers[0].port, servers[1].port)
        weir = place.gateway(WEIR)
        others = peers.start_all(folder, servers[0].port)
        visited = [weir, targets.plain(servers[0].port), *targets.nginx(folder, servers[0].port)]
        servers += [*visited[1:], *others.servers]
        bench = Bench(folder, weir, tuple(servers[:2]), place.stores)
        _measure(bench, [*visited, *others.servers], servers[0])
        seconds = _promised(bench, place)
        sent = bench.sent
        booked = place.when_booked(sent)
        _crowd(bench, visited, servers[0])
    finally:
        for server in reversed([*servers, *place.servers]):
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if booked != sent:
        raise SystemExit(f"no figures: the ledger holds {booked}, sent were {sent}")
    _report(bench, seconds, others.missing, booked)


def _measure(bench: Bench, servers: list[targets.Server], upstream: targets.Server) -> None:
    streaming = [server for server in servers if server.name != peers.LITELLM]
    bench.visit(JSON, servers)
    bench.visit(BARE, [s for s in servers if s.name in (WEIR, PLAIN, NGINX)])
    bench.visit(RICH, streaming)
    bench.visit(ONE, [*streaming, upstream])


def _crowd(bench: Bench, servers: list[targets.Server], upstream: targets.Server) -> None:
    """Last, and not in the books: a core that cannot carry it lets calls fail."""
    few = [server for server in servers if server.name in (WEIR, NGINX)]
    bench.visit(THOUSAND, [*few, upstream], rounds=1, seconds=STREAMS_SECONDS)


def _promised(bench: Bench, place: Place) -> dict[str, float]:
    before = promises.stats(bench.upstreams[0])
    aborted = promises.abort_seconds(bench.weir, bench.upstreams[0])
    bench.count(before, promises.stats(bench.upstreams[0]))
    two = place.gateway("two", processes=2)
    return {"abort": aborted, "revocation": promises.revocation_seconds(place, two)}


# --- the page -------------------------------------------------------------------------------


def _report(
    bench: Bench, seconds: dict[str, float], missing: dict[str, str], booked: Booked
) -> None:
    page = table(_HEAD, [_row(bench, name) for name in bench.names(JSON)])
    say(page)
    cores = os.cpu_count() or 1
    text = _NOTES.format(
        events=f"{booked.events:,}",
        tokens=f"{booked.tokens:,}",
        seconds=f"{STREAMS_SECONDS:g}",
        rounds=bench.rounds,
        all=_all_processes(bench),
        streams=_streams(bench),
        missing="".join(f"\n{name} could not be had: {why}\n" for name, why in missing.items()),
    )
    wanted = {
        "request_cpu_x_nginx": _ratio(bench, JSON, NGINX, 2.2, missing),
        "request_cpu_x_vllm_router": _ratio(bench, JSON, peers.VLLM, 1.0, missing),
        "request_cpu_x_litellm": _ratio(bench, JSON, peers.LITELLM, 1 / 200, missing),
        "chunk_cpu_x_nginx": _ratio(bench, BARE, NGINX, 1.3, missing),
        "chunk_rich_cpu_x_nginx": _ratio(bench, RICH, NGINX, 1.5, missing),
        "ttft_added_ms": Target(bench.added_ms(WEIR, UPSTREAM, ONE), 0.4),
        "streams_1000_gap_ratio": Target(bench.gap_ratio(WEIR, UPSTREAM, THOUSAND), 2),
        "memory_mib": Target(round(bench.memory_mib, 1), 120),
        "revocation_seconds": Target(seconds["revocation"], 1),
        "abort_seconds": Target(seconds["abort"], 1),
        "process_scaling": Target(None, 1.8, True, f"two processes need 4 cores, here are {cores}"),
    }
    finish("gateway", "The gateway beside nginx and other gateways", f"{page}\n\n{text}", wanted)


_HEAD = [
    "one core",
    "CPU µs per call, small JSON, 64 connections (× nginx)",
    "CPU µs per chunk, 64 streams at 10 ms",
    "the same, usage and token ids in each chunk",
    "JSON calls per second",
    "TTFT added, one stream, ms",
]


def _row(bench: Bench, name: str) -> list[str]:
    cells = [name]
    for workload in (JSON, BARE, RICH):
        cpu, floor = bench.cpu(workload, name), bench.cpu(workload, NGINX)
        ratio = f" ({cpu / floor:.2f})" if cpu and floor else ""
        cells.append(f"{cpu:.1f}{ratio}" if cpu else "–")
    cells.append(f"{bench.rate(JSON, name):,.0f}")
    added = bench.added_ms(name, UPSTREAM, ONE)
    return [*cells, "–" if added is None else f"{added:g}"]


def _ratio(
    bench: Bench, workload: Workload, name: str, bound: float, missing: dict[str, str]
) -> Target:
    ours, theirs = bench.cpu(workload, WEIR), bench.cpu(workload, name)
    if ours is None or theirs is None:
        return Target(None, bound, False, missing.get(name, f"{name} is not installed"))
    return Target(round(ours / theirs, 4), bound)


def _all_processes(bench: Bench) -> str:
    rows = [
        [workload.name, f"{bench.cpu(workload, WEIR):.1f}", f"{bench.stores_cpu(workload):.1f}"]
        for workload in (JSON, BARE, RICH)
    ]
    head = ["µs of CPU per call or chunk", "gateway, its parent with it", "PostgreSQL and Valkey"]
    return table(head, rows)


def _streams(bench: Bench) -> str:
    rows = [
        [
            name,
            *(f"{gap:.1f}" for gap in bench.gaps_ms(THOUSAND, name)),
            f"{bench.rate(THOUSAND, name):,.0f}",
            f"{bench.bad(THOUSAND, name)}",
        ]
        for name in bench.names(THOUSAND)
    ]
    head = ["1,000 streams of 50 chunks/s", "gap ms, median", "p99", "chunks per second", "failed"]
    return table(head, rows)


_NOTES = (ROOT / "tests/bench/gateway_notes.md").read_text()


if __name__ == "__main__":
    main()
