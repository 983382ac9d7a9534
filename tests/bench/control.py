"""What deciding, watching and launching cost, and how soon a launch serves.

make bench-control
"""

import json
import statistics
from collections.abc import Callable

from tests.bench import agent, cold, launching, placing
from tests.bench.place import Place, a_place
from tests.bench.report import Target, finish, say, table

BOUNDS = {
    "reconcile_tick_cpu_seconds": 0.5,
    "place_1000_on_10000_seconds": 1,
    "place_growth_ratio": 13,
    "agent_cpu_percent": 1,
    "agent_pss_mib": 100,
    "apply_to_process_seconds": 2,
    "ready_to_routed_seconds": 1,
    "cold_start_ratio": 1.2,
}
ENGINE_PERCENT_MAX = 0.3  # told in the table; no target of the summary
Found = dict[str, float]


def main() -> None:
    found: Found = {}
    rows: list[list[str]] = []
    failed: dict[str, str] = {}
    for part in (_placing, _servers, _launching):
        _try(part, found, rows, failed)
    targets = {
        name: Target(found.get(name), bound, reason=_why(name, found, failed))
        for name, bound in BOUNDS.items()
    }
    page = table(["what", "figures"], rows)
    say(page)
    finish("control", "What the control path costs", f"{page}\n\n{_NOTES}", targets)


def _try(part: Callable, found: Found, rows: list, failed: dict[str, str]) -> None:
    """A part that cannot be run leaves its figures out, with the reason."""
    try:
        part(found, rows)
    except (SystemExit, OSError, RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        failed[part.__name__] = reason[0]
        say(f"{part.__name__[1:]}: {reason[0]}")


def _why(name: str, found: Found, failed: dict[str, str]) -> str:
    return "" if name in found else "; ".join(failed.values()) or "it was not reached"


def _placing(found: Found, rows: list) -> None:
    small, large = placing.measure(placing.SMALL), placing.measure(placing.LARGE)
    found["place_1000_on_10000_seconds"] = round(small.seconds, 3)
    found["place_growth_ratio"] = round(large.seconds / small.seconds, 2)
    for devices, taken in ((placing.SMALL, small), (placing.LARGE, large)):
        told = f"{taken.index:.3f} + {taken.places:.3f}; {taken.placed} found a place"
        rows.append([f"index of {devices:,} devices + {placing.NEEDS} launches, CPU s", told])


def _servers(found: Found, rows: list) -> None:
    with a_place() as place:
        _tick(place, found, rows)
        _agent(agent.measure(place, place.folder), found, rows)


def _tick(place: Place, found: Found, rows: list) -> None:
    count = int(place.run("fill()", "steady"))
    ticks = json.loads(place.run("measure()", "steady"))
    sums = [sum(both) for both in zip(*ticks.values(), strict=True)]
    found["reconcile_tick_cpu_seconds"] = round(statistics.median(sums), 3)
    for who, seconds in ticks.items():
        told = f"{statistics.median(seconds):.3f}; {min(seconds):.3f} to {max(seconds):.3f}"
        rows.append([f"tick over {count:,} replicas, {who}, CPU s: median; all", told])


def _agent(cost: agent.Cost, found: Found, rows: list) -> None:
    found["agent_cpu_percent"] = round(cost.cpu_percent, 2)
    found["agent_pss_mib"] = round(cost.pss_mib, 1)
    told = f"{cost.engine_percent:.2f}; not over {ENGINE_PERCENT_MAX}"
    rows.append(["agent, more for each scraped engine, % of a core; bound", told])


def _launching(found: Found, rows: list) -> None:
    seen = launching.measure()
    found["apply_to_process_seconds"] = max(seen.to_process)
    found["ready_to_routed_seconds"] = max(seen.to_routed)
    found["cold_start_ratio"] = round(max(cold.ratio for cold in seen.cold.values()), 2)
    rows.append(["commit to pid, s, each try", ", ".join(map(str, seen.to_process))])
    rows.append(["ready to the first answer, s, each try", ", ".join(map(str, seen.to_routed))])
    for kind, starts in seen.cold.items():
        rows += starts.rows(kind)


_NOTES = f"""
Placing: the pure rules and the index of what is free, hosts of eight cards, a fifth of them empty;
needs of one, two and four cards, own and shared, of three priorities, each wanted
{placing.TWINS} times. The index counts. CPU time of the best of {placing.ROUNDS} rounds.
The tick reads real tables: 500 deployments of 10 replicas and 4 launches that are over, 6,250 cards
of which 5,000 are booked; CPU time of Python and of its PostgreSQL backend together, median.
The agent is a real `manage.py node` with {agent.CARDS} cards of the fake driver library, without
engines: CPU time over {agent.SECONDS} s, then the PSS of all its processes. Then what it costs more
with {agent.ENGINES} idle stub engines to watch and scrape, divided by their number.
Launches run on a real `weir up` with the stub engine: from the commit of `weir apply` as another
connection sees it to the pid in its row; from the READY move to an answered call; the worst of
{launching.ROUNDS} is judged. The cold start is from the row of the launch to READY: of a stub that
takes {launching.SLOW_SECONDS} s to start, once, and of vLLM on its CPU with a random model of two
layers, where that runtime is installed; alone is the same command until `/health` answers. vLLM
starts in both ways in turn, {cold.PAIRS} times or {cold.PAIRS_MAX}, and the least of each is held
against the other: its first start in a home fills caches there, which all later ones find. Wait
and fetch are over when its process is there, warm-up begins when `/health` answers and ends with
READY: these three are Weir's own. The worse of the two engines is judged. Wall time on a machine
with other work in it is what it is.
"""


if __name__ == "__main__":
    main()
