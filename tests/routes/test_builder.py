"""The snapshot's builder hears of changes and compiles what is behind."""

import time

import pytest
from django.db import transaction

from control.models import SnapshotPart
from control.routes.builder import Builder, build_all
from control.states import Part

HANG_SECONDS = 30


@pytest.mark.django_db
def test_builds_what_is_behind_and_only_that():
    assert set(build_all()) == set(Part)
    assert build_all() == []
    SnapshotPart.raise_version(Part.ROUTES)
    assert build_all() == [Part.ROUTES]


@pytest.mark.django_db(transaction=True)
def test_a_commit_is_heard_built_and_told_on():
    heard = []
    builder = Builder(heard=heard.append)
    builder.start()
    try:
        wait_until(lambda: built(Part.IDENTITIES) >= 1)
        with transaction.atomic():
            SnapshotPart.raise_version(Part.IDENTITIES)
        wait_until(lambda: {"identities"} in heard)
        assert built(Part.IDENTITIES) == 2
    finally:
        builder.stop()


def built(part):
    return SnapshotPart.objects.get(pk=part).built


def wait_until(holds):
    deadline = time.monotonic() + HANG_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
