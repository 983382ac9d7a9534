"""What a process tells: by which replicas it serves, what runs on those that drain, and which
prompts it refuses since engines died of them."""

import contextlib
import json
import threading
from typing import NamedTuple

import psycopg

from control.gateway.routing.replicas import LiveReplicas
from control.gateway.routing.strikes import Condemned, Strikes

_HOUR = "1 hour"  # a row that old is of a process that is gone
_TELL = """
INSERT INTO control_gatewayprocess (owner, replicas_version, calls, refused, seen_at)
VALUES (%s, %s, %s, %s, clock_timestamp())
ON CONFLICT (owner) DO UPDATE SET replicas_version = EXCLUDED.replicas_version,
calls = EXCLUDED.calls, refused = EXCLUDED.refused, seen_at = EXCLUDED.seen_at
"""
_FORGET = "DELETE FROM control_gatewayprocess WHERE seen_at < clock_timestamp() - %s::interval"
_LEAVE = "DELETE FROM control_gatewayprocess WHERE owner = %s"
_PROMPTS_MAX = 20  # that are told of: who has more of them knows already
_SWAP_SECONDS = 0.5  # what the loop may take for a swap that the same look tells of

# A gateway serves on while the schema is older than it is: then nobody waits for what it says.
_OLDER_SCHEMA = contextlib.suppress(psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)


class Serving(NamedTuple):
    replicas_version: int
    calls: dict[int, int]  # by replica, of those that drain and have any


class Presence:
    """The loop says what it serves by, the snapshot's thread writes it down each second."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._serving: Serving | None = None
        self._refused: list[Condemned] = []
        self._swapped = threading.Event()

    # --- the loop ---

    def serve(self, version: int, replicas: LiveReplicas) -> None:
        calls = {live.id: live.in_flight for live in replicas.draining if live.in_flight}
        self._serving = Serving(version, calls)
        self._swapped.set()

    def keep(self, replicas: LiveReplicas, strikes: Strikes) -> None:
        """Once a second: what drains has fewer calls by now, and a prompt may be refused."""
        self._refused = strikes.told(_PROMPTS_MAX)
        if self._serving and (self._serving.calls or replicas.draining):
            self.serve(self._serving.replicas_version, replicas)

    # --- the thread ---

    def handing_over(self) -> None:
        self._swapped.clear()

    def await_swap(self) -> None:
        """So that a drain does not wait for the next look; the loop may be busy for longer."""
        self._swapped.wait(_SWAP_SECONDS)

    def tell(self, database: psycopg.Connection) -> None:
        if serving := self._serving:
            calls = json.dumps(serving.calls)
            prompts = [one._asdict() for one in self._refused]
            told = [self._owner, serving.replicas_version, calls, json.dumps(prompts or None)]
            with _OLDER_SCHEMA:
                database.execute(_TELL, told)

    def leave(self, database: psycopg.Connection) -> None:
        with _OLDER_SCHEMA:
            database.execute(_LEAVE, [self._owner])

    def forget_old(self, database: psycopg.Connection) -> None:
        with _OLDER_SCHEMA:
            database.execute(_FORGET, [_HOUR])
