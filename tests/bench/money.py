"""What money costs: storing usage, a page over a month of it, its export.

make bench-money, or python -m tests.bench.money EVENTS for a smaller month.
"""

import json
import statistics
import sys
from collections.abc import Callable
from subprocess import SubprocessError

from tests.bench.place import Place, a_place
from tests.bench.report import Target, finish, say, table

EVENTS = 10_000_000
INGEST_CALLS = 300_000
BOUNDS = {  # figure -> bound, and whether at least that is promised
    "ingest_events_per_cpu_second": (20_000, True),
    "usage_page_ms": (300, False),
    "export_rows_per_second": (100_000, True),
    "export_pss_mib": (200, False),
    "rollup_lag_seconds": (5, False),
}
Found = dict[str, float]
Rows = list[list[str]]


def main(events: int = EVENTS) -> None:
    found: Found = {}
    rows: Rows = []
    failed: dict[str, str] = {}
    with a_place() as place:
        for part in (_ingest, _lag, _month, _page, _export):
            _try(part, place, events, (found, rows, failed))
    targets = {
        name: Target(found.get(name), bound, at_least, "; ".join(failed.values()))
        for name, (bound, at_least) in BOUNDS.items()
    }
    page = table(["what", "figures"], rows)
    say(page)
    finish("money", "What money costs", f"{page}\n\n{_NOTES}", targets)


def _try(part: Callable, place: Place, events: int, into: tuple[Found, Rows, dict]) -> None:
    """A part that cannot be run leaves its figures out, with the reason."""
    found, rows, failed = into
    say(f"{part.__name__[1:]} …")
    try:
        part(place, events, found, rows)
    except (OSError, SubprocessError, AssertionError, ValueError) as error:
        failed[part.__name__] = f"{part.__name__[1:]}: {str(error).strip()[:200]}"
        say(failed[part.__name__])


def _ingest(place: Place, _: int, found: Found, rows: Rows) -> None:
    told = json.loads(place.run(f"ingest({INGEST_CALLS})", "books"))
    count, ours, theirs = told["events"], told["ours"], told["theirs"]
    found["ingest_events_per_cpu_second"] = round(count / (ours + theirs))
    who = f"of {told['tenants']} tenants with {told['models']} models"
    rows.append([f"events stored, {who}, each with its open and its progress", f"{count:,}"])
    rows.append(["events per CPU second: of our process alone", f"{count / ours:,.0f}"])
    rows.append(["of PostgreSQL's processes alone", f"{count / theirs:,.0f}"])
    rows.append(["of both together; per second of the clock", f"{_both(told)}"])


def _both(told: dict) -> str:
    each = told["events"] / (told["ours"] + told["theirs"])
    return f"{each:,.0f}; {told['events'] / told['wall']:,.0f}"


def _lag(place: Place, _: int, found: Found, rows: Rows) -> None:
    told = json.loads(place.run("lag()", "books"))
    found["rollup_lag_seconds"] = round(told["worst"], 2)
    calls = f"{told['calls']:,} calls, {told['per_second']:,} a second"
    rows.append([f"{calls}: oldest when the sums had it, s", f"{told['worst']:.2f}"])


def _month(place: Place, events: int, _: Found, rows: Rows) -> None:
    hours = int(place.run(f"fill({events})", "books"))
    rows.append(["the month: events; rows of sums by the hour", f"{events:,}; {hours:,}"])


def _page(place: Place, events: int, found: Found, rows: Rows) -> None:
    told = json.loads(place.run("page()", "books"))
    if told["calls"] < events:
        raise AssertionError(f"the page shows {told['calls']} calls of {events}")
    found["usage_page_ms"] = round(statistics.median(told["ms"]))
    spread = f"{min(told['ms']):.0f} to {max(told['ms']):.0f}"
    rows.append(["usage page, ms: median; all", f"{found['usage_page_ms']:g}; {spread}"])


def _export(place: Place, events: int, found: Found, rows: Rows) -> None:
    told = json.loads(place.run("export()", "books"))
    if told["rows"] < events:
        raise AssertionError(f"the export has {told['rows']} rows of {events}")
    found["export_rows_per_second"] = round(told["rows"] / told["seconds"])
    found["export_pss_mib"] = round(told["pss_mib"], 1)
    size = f"{told['bytes'] / 2**20:,.0f} MiB in {told['seconds']:.0f} s"
    rows.append(["CSV of the month: rows; size and time", f"{told['rows']:,}; {size}"])


_NOTES = f"""
Ingest: a spool of {INGEST_CALLS:,} calls is shipped as a gateway's parent does it: read, priced,
copied, summed by the hour, posted, committed with fsync. What counts is the CPU time of our process
and of all of PostgreSQL's processes together; each alone is beside it. Afterwards `weir books`
agrees.
The lag is of the oldest call of each shipment, from the write of its end into the spool to the
commit of the sums that have it, while calls end all the time.
The month is filled by SQL; the page is that of an operator, all tenants by model, through Django
with its templates, the whole month with its list of calls. The export is the public function of
`control.metering.exports`, read as fast as it comes, in a process of its own; PSS is the most of
that process. PostgreSQL is the packaged one with its own settings. Wall time on a machine with
other work in it is what it is.
"""


if __name__ == "__main__":
    main(*[int(word) for word in sys.argv[1:2]])
