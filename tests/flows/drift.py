"""Do engines agree with the books? Asked at the end of flows, when no call runs."""

import json

from tests.flows.books import books_balance
from tests.flows.weir import Weir, until

EDGE_SECONDS = 3.0
# Engines that serve and were not read since the last call ended, or only just now.
UNREAD = """
SELECT count(*) FROM control_replica r
  CROSS JOIN (SELECT max(ended_at) AS at FROM control_usageevent) last
  CROSS JOIN LATERAL (SELECT coalesce(max(read_at), r.created_at) AS at
                        FROM control_enginecount c WHERE c.replica_id = r.id) reading
 WHERE r.state = 'ready' AND (reading.at < last.at + make_interval(secs => %s)
                              OR reading.at > clock_timestamp() - make_interval(secs => %s))
"""
UNJUDGED = """
SELECT replica_id, read_at FROM control_enginecount c WHERE NOT EXISTS
  (SELECT FROM control_drift d WHERE d.replica_id = c.replica_id AND d.end_at = c.read_at)
"""


def engines_agree(weir: Weir) -> list[dict]:
    """All that every engine counted in its life is explained, to the token."""
    books_balance(weir)
    return counters_agree(weir)


def counters_agree(weir: Weir) -> list[dict]:
    """Of engines on any host; the books must have come to rest."""
    edges = EDGE_SECONDS, EDGE_SECONDS
    until(lambda: weir.rows(UNREAD, *edges) == [(0,)], "engines that are read once more")
    hours = until(lambda: _judged(weir), "all that was read, judged")
    for hour in hours:
        assert hour["unexplained"] == {"input": 0, "output": 0}, hour
    return hours


def _judged(weir: Weir) -> list[dict]:
    """Nothing, if an engine was read again meanwhile."""
    said = weir.weir("drift", "--now", "--json")
    assert said.returncode == 0, said.stdout + said.stderr
    hours = [json.loads(line) for line in said.stdout.splitlines()]
    return [] if weir.rows(UNJUDGED) else hours
