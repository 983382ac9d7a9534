"""Do the books balance? Asked at the end of every flow, above all after a kill -9."""

import json
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from control.metering.backlog import read
from control.metering.segments import owners
from tests.flows.weir import HANG_SECONDS, POLL_SECONDS, Weir

LINES_MAX = 1_000_000


@dataclass
class Books:
    """Everything that must come to rest when no call runs."""

    leases: int  # calls that Valkey believes to be running
    in_flight: int  # calls that gateways believe to be running
    unsettled: int  # calls and lines that a spool still holds
    events: list[str] = field(default_factory=list)
    booked: set[int] = field(default_factory=set)  # replicas that hold device memory
    engines: set[int] = field(default_factory=set)  # replicas whose process lives

    def faults(self, calls: Collection[str] | int | None) -> list[str]:
        doubled = len(self.events) - len(set(self.events))
        found = [
            (self.leases, f"{self.leases} leases in Valkey, wanted 0"),
            (self.in_flight, f"{self.in_flight} calls in flight, wanted 0"),
            (self.unsettled, f"{self.unsettled} records not settled in the spool, wanted 0"),
            (doubled, f"{doubled} events counted twice"),
            (
                self.booked != self.engines,
                f"memory is booked by replicas {sorted(self.booked)}, engines live of "
                f"{sorted(self.engines)}",
            ),
        ]
        if isinstance(calls, int):
            found.append((calls != len(self.events), f"{len(self.events)} events, {calls} calls"))
        elif calls is not None:
            missing, more = set(calls) - set(self.events), set(self.events) - set(calls)
            found.append((missing, f"no event of {sorted(missing)}"))
            found.append((more, f"events of calls nobody made: {sorted(more)}"))
        return [text for wrong, text in found if wrong]


def read_books(weir: Weir) -> Books:
    with weir.valkey() as valkey:
        leases = sum(valkey.zcard(key) for key in valkey.scan_iter("calls:*"))
        gateways = [valkey.get(key) for key in valkey.scan_iter("live:gateway:*")]
    booked = weir.rows("SELECT DISTINCT replica_id FROM control_reservation WHERE state = 'held'")
    return Books(
        leases=leases,
        in_flight=sum(json.loads(text)["in_flight"] for text in gateways if text),
        unsettled=_unsettled(weir.home.path / "spool"),
        events=[row[0] for row in weir.rows("SELECT call_id FROM control_usageevent")],
        booked={row[0] for row in booked},
        engines=set(weir.engines()),
    )


def books_balance(weir: Weir, calls: Collection[str] | int | None = None) -> Books:
    """Wait until they do; else say what does not add up. `calls`: the admitted ones, ids or count.

    Leases of a killed gateway end by themselves within seconds, so this waits for rest first.
    """
    deadline = time.monotonic() + HANG_SECONDS
    while faults := (books := read_books(weir)).faults(calls):
        assert time.monotonic() < deadline, "; ".join(faults)
        time.sleep(POLL_SECONDS)
    return books


def _unsettled(spool: Path) -> int:
    total = 0
    for owner in owners(spool):
        try:
            rest = read(spool / owner, True, LINES_MAX)
        except FileNotFoundError:  # the shipper deletes files while we look
            return 1
        total += rest.lines + len(rest.after.calls)
    return total
