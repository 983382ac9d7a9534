"""Keeps what a gateway knows current: a thread that loads, decodes and hands over, off the loop."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import psycopg
from cryptography.fernet import InvalidToken
from django.db import Error as DatabaseError
from django.db import connection
from django.utils import timezone

from control.gateway.known.hearing import AGAIN_SECONDS, Ear, connected
from control.gateway.known.presence import Presence
from control.gateway.known.revoked import Revoked
from control.gateway.limits import Limits
from control.models import SnapshotPart
from control.models.sealing import unseal
from control.routes import compiler, snapshot
from control.routes.snapshot import FORMAT, Identities, Replicas, Routes
from control.states import Part

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.3  # a notification may be lost, and a revocation has a second
_TELL_SECONDS = 1.0
_BREATH_SECONDS = 0.05  # between two builds, if changes never end
_TOUCH_SECONDS = 10.0
_CHANNELS = (SnapshotPart.CHANNEL_BUILT, SnapshotPart.CHANNEL_STALE)
_VERSIONS = "SELECT part, version, built FROM control_snapshotpart"
_PAYLOAD = "SELECT payload, built FROM control_snapshotpart WHERE part = %s"


class Known(NamedTuple):
    """All three parts, with the engines' keys opened."""

    identities: Identities
    routes: Routes
    replicas: Replicas
    keys: dict[int, str]


class Hearer(NamedTuple):
    """Whom the keeper tells, in a thread of its own; of a revoked key in that of its ear."""

    known: Callable[[Known], None]
    confirmed: Callable[[float], None]  # seconds ago
    nothing: Callable[[], None]  # the database has no whole snapshot


class Keeper(threading.Thread):
    def __init__(
        self,
        *,
        url: str,
        folder: Path,
        limits: Limits,
        hearer: Hearer,
        presence: Presence,
    ) -> None:
        super().__init__(name="snapshot", daemon=True)
        self._url = url
        self._disk = Disk(folder)
        self._limits = limits
        self._hearer = hearer
        self._presence = presence
        self._stopping = threading.Event()
        self._parts: dict[Part, msgspec.Struct] = {}
        self._keys: dict[int, str] = {}
        self._loaded: dict[Part, int] = {}
        self._revoked = Revoked()
        self._ear = Ear(url, self._revoke, self._stopping)
        self._taking = threading.Lock()  # parts, and which keys are out of them
        self._told_at = float("-inf")
        self._handed_over = False  # and not told yet
        self._stale_since: float | None = None  # identities, by the monotonic clock
        self._said = False

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        self._ear.start()
        while not self._stopping.is_set():
            try:
                self._follow()
            except (psycopg.Error, DatabaseError, OSError) as error:
                if not self._said:
                    log.warning("no database (%s): serving what is known", type(error).__name__)
                self._said = True
                if not self._parts:
                    self._read_disk()
                self._stopping.wait(AGAIN_SECONDS)
            except Exception:
                log.exception("the snapshot could not be followed; trying again")
                self._stopping.wait(AGAIN_SECONDS)
        connection.close()
        self._ear.join()

    def _follow(self) -> None:
        with connected(self._url) as database:
            for channel in _CHANNELS:
                database.execute(f"LISTEN {channel}")
            self._said = False
            self._presence.forget_old(database)
            self._catch_up(database)
            while not self._stopping.is_set():
                self._poll(database)
                self._tell(database)
                for _ in database.notifies(timeout=self._wait_seconds(), stop_after=1):
                    pass  # whatever it is about is read from the tables
            self._presence.leave(database)

    def _catch_up(self, database: psycopg.Connection) -> None:
        """What is behind may be so since long before this process heard of anything."""
        version, built = self._versions(database).get(Part.IDENTITIES, (0, 0))
        if version > built:
            try:
                self._build_identities(waits=True)
            except DatabaseError:
                log.exception("identities cannot be compiled: serving by the last that were")

    def _tell(self, database: psycopg.Connection) -> None:
        now = time.monotonic()
        if now - self._told_at >= _TELL_SECONDS or self._handed_over:
            self._told_at, self._handed_over = now, False
            self._presence.tell(database)

    def _wait_seconds(self) -> float:
        if self._stale_since is None:
            return _POLL_SECONDS
        left = self._stale_since + self._limits.identities_stale_seconds - time.monotonic()
        return min(max(left, _BREATH_SECONDS), _POLL_SECONDS)

    def _revoke(self, words: str) -> None:
        with self._taking:
            self._revoked.hear(words)
            if known := self._parts.get(Part.IDENTITIES):
                self._parts[Part.IDENTITIES] = self._revoked.without(known)
                self._hand_over()

    def _versions(self, database: psycopg.Connection) -> dict[Part, tuple[int, int]]:
        known = set(map(str, Part))
        return {
            Part(part): (version, built)
            for part, version, built in database.execute(_VERSIONS)
            if part in known  # a newer release may have more of them
        }

    def _poll(self, database: psycopg.Connection) -> None:
        rows = self._versions(database)
        changed = [part for part, (_, built) in rows.items() if built != self._loaded.get(part, 0)]
        taken: dict[Part, bytes] = {}
        for part in changed:
            payload, built = database.execute(_PAYLOAD, [part]).fetchone()
            if self._take(part, bytes(payload)):
                taken[part] = bytes(payload)
            self._loaded[part] = built
        if changed:
            self._presence.handing_over()
            with self._taking:
                self._hand_over()
            self._presence.await_swap()
            self._handed_over = True
        for part, payload in taken.items():
            self._disk.write(part, payload)  # last: a busy disk is nobody's concern
        if len(self._parts) < len(Part):
            self._hearer.nothing()
        version, built = rows.get(Part.IDENTITIES, (0, 0))
        if self._identities_current(behind=version > built):
            self._hearer.confirmed(0.0)
            self._disk.touch()

    def _identities_current(self, *, behind: bool) -> bool:
        """A revocation must not wait for a builder that does not run."""
        if not behind:
            self._stale_since = None
            return True
        now = time.monotonic()
        if self._stale_since is None:
            self._stale_since = now
        elif now - self._stale_since >= self._limits.identities_stale_seconds:
            self._build_identities(waits=False)
        return False

    def _build_identities(self, *, waits: bool) -> None:
        """Not `waits`: whoever builds them now, or changes them, tells of it; all else goes on."""
        connection.close_if_unusable_or_obsolete()
        compiler.build(Part.IDENTITIES, at=timezone.now(), waits=waits)

    def _take(self, part: Part, payload: bytes) -> bool:
        try:
            value = snapshot.decode(part, payload)
        except msgspec.DecodeError:
            log.exception("part %s of the snapshot cannot be read; the last one is kept", part)
            return False
        if value.format not in (FORMAT, FORMAT - 1):
            log.error("part %s of the snapshot has format %d, unknown here", part, value.format)
            return False
        with self._taking:
            if isinstance(value, Identities):
                value = self._revoked.without(value)
            self._parts[part] = value
        if isinstance(value, Replicas):
            self._keys = _opened(value)
        return True

    def _hand_over(self) -> None:
        if len(self._parts) == len(Part):
            self._hearer.known(
                Known(
                    self._parts[Part.IDENTITIES],
                    self._parts[Part.ROUTES],
                    self._parts[Part.REPLICAS],
                    self._keys,
                )
            )

    def _read_disk(self) -> None:
        age = self._disk.age_seconds()
        if age is None:
            return
        for part in Part:
            payload = self._disk.read(part)
            if payload is None or not self._take(part, payload):
                return
        with self._taking:
            self._hand_over()
        self._hearer.confirmed(age)


def _opened(replicas: Replicas) -> dict[int, str]:
    keys = {}
    for replica in replicas.replicas:
        if replica.sealed_key:
            try:
                keys[replica.id] = unseal(replica.sealed_key)
            except InvalidToken:
                log.error("the key of replica %d is sealed under another WEIR_SECRET", replica.id)
    return keys


class Disk:
    """The copy that is served from when the database is away at start. For this account only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._confirmed = folder / "confirmed"
        self._touched_at = 0.0

    def read(self, part: Part) -> bytes | None:
        try:
            return (self._folder / f"{part}.json").read_bytes()
        except OSError:
            return None

    def write(self, part: Part, payload: bytes) -> None:
        path = self._folder / f"{part}.json"
        mine = path.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "wb") as opened:
                opened.write(payload)
            mine.replace(path)
        except OSError:
            log.exception("the snapshot could not be kept on disk")

    def touch(self) -> None:
        if time.monotonic() - self._touched_at > _TOUCH_SECONDS:
            self._touched_at = time.monotonic()
            with contextlib.suppress(OSError):
                self._confirmed.touch(mode=0o600)

    def age_seconds(self) -> float | None:
        try:
            return max(time.time() - self._confirmed.stat().st_mtime, 0.0)
        except OSError:
            return None
