"""The data folder: whole or not there, and of this major."""

import stat

import pytest

from control.management.local.postgres import Postgres, ServerCannotStart, password_of
from tests.servers import servers
from tests.threads import Threads


@pytest.fixture
def postgres() -> Postgres:
    """Beside the one of this run, whose account can get there."""
    place = servers.home / "another"
    place.mkdir(exist_ok=True)
    return Postgres(place, 1, servers.postgres.account, throwaway=True)


def test_a_folder_that_was_left_half_made_is_not_in_the_way(postgres):
    process = postgres.initialise()
    process.kill()
    process.communicate()
    postgres.prepare()
    assert (postgres.data / "PG_VERSION").exists()
    assert not (postgres.place / "postgres.initial").exists()


def test_data_of_another_major_is_refused_with_the_way_out(postgres):
    postgres.data.mkdir(exist_ok=True)
    (postgres.data / "PG_VERSION").write_text("16\n")
    with pytest.raises(ServerCannotStart, match="is of PostgreSQL 16.*pg_dump.*pg_restore"):
        postgres.prepare()


def test_all_who_are_first_at_once_have_the_same_password(tmp_path):
    """As the workers of a first test run are, whose servers share what is made."""
    said = set(Threads().map(lambda _: password_of(tmp_path, "shared"), range(16)))
    assert said == {(tmp_path / "shared.password").read_text()} != {""}
    assert stat.S_IMODE((tmp_path / "shared.password").stat().st_mode) == 0o600


def test_the_password_is_not_an_argument(postgres):
    assert not any(postgres.password in word for word in postgres.argv())
