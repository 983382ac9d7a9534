"""Files arrive whole or not at all, and what was fetched is not fetched again."""

import hashlib

import pytest

from engines import download
from engines.download import Download, RemoteFile
from engines.installs import InstallFailed

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()
GIT = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()


@pytest.fixture
def said() -> list[tuple[int, str]]:
    return []


@pytest.fixture
def fetch(store, client, tmp_path, said):
    store.files["/m"] = CONTENT

    def run(**changes) -> dict[str, str]:
        known = {"size": len(CONTENT), "sha256": SHA256} | changes
        work = Download(client, tmp_path, lambda *news: said.append(news), pause_seconds=0)
        return work.fetch([RemoteFile("m", f"{store.url}/m", **known)])

    return run


def test_a_file_is_fetched_once_and_told_by_its_digest(fetch, store, tmp_path, said):
    assert fetch() == {"m": SHA256}
    assert (tmp_path / "m").read_bytes() == CONTENT
    assert said[-1][0] == 100
    assert fetch() == {"m": SHA256}
    assert len(store.asked) == 1


def test_what_breaks_off_goes_on_where_it_stopped(fetch, store):
    store.cut_after = [1000, 3000]
    assert fetch() == {"m": SHA256}
    assert [asked for _, _, asked in store.asked] == ["", "bytes=1000-", "bytes=4000-"]


def test_what_an_earlier_try_left_is_used(fetch, store, tmp_path):
    (tmp_path / "m.part").write_bytes(CONTENT[:5000])
    fetch()
    assert [asked for _, _, asked in store.asked] == ["bytes=5000-"]
    assert not (tmp_path / "m.part").exists()


def test_a_whole_part_is_only_verified(fetch, store, tmp_path):
    (tmp_path / "m.part").write_bytes(CONTENT)
    assert fetch() == {"m": SHA256}
    assert store.asked == []


def test_a_damaged_part_is_fetched_anew(fetch, store, tmp_path):
    (tmp_path / "m.part").write_bytes(b"x" * 5000)
    assert fetch() == {"m": SHA256}
    assert [asked for _, _, asked in store.asked] == ["bytes=5000-", ""]


def test_a_part_that_is_too_long_is_fetched_anew(fetch, store, tmp_path):
    (tmp_path / "m.part").write_bytes(CONTENT + b"more")
    assert fetch() == {"m": SHA256}
    assert [asked for _, _, asked in store.asked][-1] == ""


def test_a_server_without_ranges_sends_all_of_it_again(fetch, store, tmp_path):
    store.ranges = False
    (tmp_path / "m.part").write_bytes(CONTENT[:5000])
    assert fetch() == {"m": SHA256}


def test_a_store_that_is_busy_is_asked_again(fetch, store):
    store.answers = [503, 429]
    assert fetch() == {"m": SHA256}


@pytest.mark.parametrize(
    ("wrong", "said_of_it"),
    [
        ({"sha256": "0" * 64}, "its SHA-256 is not the one that was announced"),
        ({"sha256": "", "git_sha1": "0" * 40}, "its Git hash is not the one"),
    ],
)
def test_what_is_not_what_was_announced_does_not_stay(fetch, tmp_path, wrong, said_of_it):
    with pytest.raises(InstallFailed, match=said_of_it):
        fetch(**wrong)
    assert list(tmp_path.iterdir()) == []


def test_small_files_are_verified_as_git_counts_them(fetch):
    assert fetch(sha256="", git_sha1=GIT) == {"m": SHA256}


@pytest.mark.parametrize(("code", "hint"), [(401, "wants a token"), (404, "not there")])
def test_a_refusal_is_told_at_once(fetch, store, code, hint):
    store.answers = [code]
    with pytest.raises(InstallFailed, match=f"refuses m: {code}.*{hint}"):
        fetch()
    assert len(store.asked) == 1


def test_a_network_that_stays_away_is_given_up_and_what_came_is_kept(fetch, store, tmp_path):
    store.cut_after = [1000] + [0] * download.ATTEMPTS_MAX
    with pytest.raises(InstallFailed, match="no network: m cannot be had from 127.0.0.1"):
        fetch()
    assert (tmp_path / "m.part").stat().st_size == 1000
