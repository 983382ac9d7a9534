"""A process hears of a revoked key at once, and never serves by what is known to be old."""

import contextlib
import queue
import threading

import psycopg
import pytest
from django.utils import timezone

from control.gateway.known.presence import Presence
from control.gateway.known.revoked import Revoked
from control.gateway.known.snapshot import Disk, Hearer, Keeper
from control.gateway.limits import Limits
from control.models import Key, SnapshotPart
from control.routes import compiler
from control.routes.snapshot import Identities
from control.states import KeyState, Part
from control.tenancy.actions import revoke_key
from tests.gateway.place import identity

HANG_SECONDS = 60
NOBODY_BUILDS = Limits(identities_stale_seconds=10 * HANG_SECONDS)


@contextlib.contextmanager
def keeper(url, folder, limits=NOBODY_BUILDS, confirmed=lambda ago: None):
    """What it hands over, as it does: whose keys are known. None is nothing."""
    handed = queue.Queue()

    def on_known(known):
        handed.put({one.key_id for one in known.identities.keys.values()})
        presence.serve(known.replicas.version, NoReplicas())

    presence = Presence("tested")
    keeper = Keeper(
        url=url,
        folder=folder,
        limits=limits,
        hearer=Hearer(on_known, confirmed, lambda: handed.put(None)),
        presence=presence,
    )
    keeper.start()
    try:
        yield lambda: handed.get(timeout=HANG_SECONDS)
    finally:
        keeper.stop()
        keeper.join(HANG_SECONDS)
    assert not keeper.is_alive()


class NoReplicas:
    draining = ()


@pytest.fixture
def url(environment):
    return environment["WEIR_DATABASE_URL"]


def test_a_revocation_is_obeyed_before_identities_are_built_again(url, key, tmp_path):
    with keeper(url, tmp_path) as handed:
        assert handed() == {key.pk}
        revoke_key(key.pk, by="test", reason="it leaked", at=timezone.now())
        assert handed() == set()
    part = SnapshotPart.objects.get(pk=Part.IDENTITIES)
    assert part.built < part.version


def test_a_revocation_waits_for_nothing_that_the_snapshot_is_busy_with(url, key, tmp_path):
    free, busy = threading.Event(), threading.Event()

    def confirmed(_ago):
        busy.set()
        free.wait(HANG_SECONDS)

    with keeper(url, tmp_path, confirmed=confirmed) as handed:
        assert handed() == {key.pk}
        assert busy.wait(HANG_SECONDS)
        try:
            revoke_key(key.pk, by="test", reason="it leaked", at=timezone.now())
            assert handed() == set()
        finally:
            free.set()


def test_a_revocation_is_heard_after_connections_were_lost(url, key, tmp_path):
    with keeper(url, tmp_path, Limits()) as handed, psycopg.connect(url, autocommit=True) as other:
        assert handed() == {key.pk}
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE query LIKE 'LISTEN%' OR query LIKE '%control_snapshotpart%'"
            " AND pid <> pg_backend_pid() AND datname = current_database()"
        )
        revoke_key(key.pk, by="test", reason="it leaked", at=timezone.now())
        while handed() != set():
            pass


def test_a_change_of_identities_that_is_under_way_holds_up_nothing_else(url, key, tmp_path):
    with (
        keeper(url, tmp_path, Limits(identities_stale_seconds=0.0)) as handed,
        psycopg.connect(url) as other,
    ):
        assert handed() == {key.pk}
        Key.objects.update(state=KeyState.REVOKED)
        SnapshotPart.raise_version(Part.IDENTITIES)
        other.execute("SELECT 1 FROM control_snapshotpart WHERE part = 'identities' FOR UPDATE")
        SnapshotPart.raise_version(Part.ROUTES)
        assert compiler.build(Part.ROUTES, at=timezone.now())
        known = handed()  # the route, at least
        other.rollback()
        while known:  # nothing, if identities were built before they were locked
            known = handed()


def test_what_is_behind_at_the_start_is_built_before_it_is_served(url, key, tmp_path):
    with keeper(url, tmp_path) as handed:
        assert handed() == {key.pk}  # and a copy is on disk
    assert Disk(tmp_path).read(Part.IDENTITIES)
    Key.objects.update(state=KeyState.REVOKED)
    SnapshotPart.raise_version(Part.IDENTITIES)
    with keeper(url, tmp_path) as handed:
        assert handed() == set()


def test_a_database_without_a_snapshot_is_not_waited_for(url, key, tmp_path):
    SnapshotPart.objects.exclude(part=Part.IDENTITIES).update(built=0, payload=b"")
    with keeper(url, tmp_path) as handed:
        assert handed() is None


def test_the_copy_on_disk_is_for_when_there_is_no_database(url, key, tmp_path):
    with keeper(url, tmp_path) as handed:
        assert handed() == {key.pk}
    with keeper("postgresql://weir@127.0.0.1:1/weir", tmp_path) as handed:
        assert handed() == {key.pk}


def test_a_process_without_a_builder_builds_for_itself(url, key, tmp_path):
    with keeper(url, tmp_path, Limits()) as handed:
        assert handed() == {key.pk}
        Key.objects.update(state=KeyState.REVOKED)
        SnapshotPart.raise_version(Part.IDENTITIES)
        assert handed() == set()


def test_an_older_part_does_not_bring_a_revoked_key_back():
    revoked = Revoked()
    revoked.hear("7 1")
    assert set(revoked.without(of(5)).keys) == {"b"}
    assert set(revoked.without(of(6)).keys) == {"b"}
    assert set(revoked.without(of(7)).keys) == {"a", "b"}  # which compiled it out, or it is back
    assert set(revoked.without(of(6)).keys) == {"a", "b"}  # what is known by now is not kept


def of(version):
    keys = {"a": identity(key_id=1), "b": identity(key_id=2)}
    return Identities(2, version, keys, {})
