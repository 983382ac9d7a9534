"""One instance to a home, and what the home keeps."""

import json
import os
import stat
import subprocess
import sys

import psutil
import pytest

from control.management.local.account import Account, server_account
from control.management.local.home import CannotUseHome, Claimed, Home, NotEnoughDisk, Running
from tests.servers import servers


@pytest.fixture
def home(tmp_path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


def test_a_second_supervisor_is_refused_and_told_who_is_first(home):
    home.tell(Running(pid=4711))
    with home.claim(), pytest.raises(Claimed, match=r"already runs in .* \(pid 4711\)"):
        home.claim()
    assert not home.is_claimed()


def test_an_owner_that_was_killed_owns_nothing(home):
    code = (
        "import sys, time; from pathlib import Path;"
        "from control.management.local.home import Home;"
        "lock = Home(Path(sys.argv[1])).claim(); print('mine', flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, home.path], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout.readline() == "mine\n"
    assert home.is_claimed()
    owner.kill()
    owner.wait()
    assert not home.is_claimed()


def test_what_it_keeps_is_for_its_owner_only(home):
    home.write_private("first-key", "weir-secret\n")
    home.connect(pid=1, database_url="postgresql://weir:secret@127.0.0.1:5/weir")
    for name in ("first-key", "connections.json"):
        assert stat.S_IMODE((home.path / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(home.logs.stat().st_mode) == 0o700


def test_nothing_known_is_nothing_running(home):
    assert home.running() == Running()
    (home.path / "supervisor.json").write_text("{half")
    assert home.running() == Running()


def test_settings_forget_the_servers_of_a_supervisor_that_was_killed(home):
    told = {"database_url": "postgresql://weir@127.0.0.1:5/weir", "gateway_port": 7901}
    code = "from django.conf import settings; print(settings.WEIR_GATEWAY_PORT)"
    hidden = ("WEIR_DATABASE_URL", "WEIR_GATEWAY_PORT")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env |= {"WEIR_HOME": str(home.path), "DJANGO_SETTINGS_MODULE": "console.settings"}

    def port(pid: int) -> str:
        home.connect(pid=pid, **told)
        return subprocess.check_output([sys.executable, "-c", code], env=env, text=True).strip()

    gone = subprocess.Popen(["true"])
    gone.wait()
    assert port(psutil.Process().pid) == "7901"
    assert port(gone.pid) == "7801"


def test_a_full_disk_is_said_before_anything_is_made(home):
    with pytest.raises(NotEnoughDisk, match="needed for an engine: free some space"):
        home.require_disk(10**18, "for an engine")


def test_a_home_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotUseHome, match="choose another WEIR_HOME"):
        Home(tmp_path / "file" / "home").make()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root drops to another account")
def test_a_closed_home_is_opened_for_passing_through_only():
    home = Home(servers.home / "closed")  # whose folders above are open
    home.make()
    home.path.chmod(0o700)
    place = home.server_place(server_account())
    assert place == home.path / "servers"
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o711


@pytest.mark.skipif(os.geteuid() != 0, reason="only root drops to another account")
def test_a_strict_umask_does_not_lock_the_servers_out():
    before = os.umask(0o077)
    try:
        home = Home(servers.home / "strict")
        home.make()
        place = home.server_place(server_account())
        assert server_account().can_enter(server_account().folder(place / "programs"))
    finally:
        os.umask(before)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root drops to another account")
def test_below_a_closed_folder_the_servers_live_elsewhere(home, tmp_path, monkeypatch):
    monkeypatch.setattr("control.management.local.home.ELSEWHERE", tmp_path / "elsewhere")
    home.path.parent.chmod(0o700)
    place = home.server_place(server_account())
    assert place.parent == tmp_path / "elsewhere"
    assert (home.path / "servers").resolve() == place
    assert home.server_place(server_account()) == place


def test_without_root_the_servers_are_ours(home):
    assert home.server_place(Account()) == home.path / "servers"


def test_states_are_whole_or_not_there(home):
    home.tell(Running(pid=7, stage="ready"))
    assert json.loads((home.path / "supervisor.json").read_text())["stage"] == "ready"
    assert [path.name for path in home.path.glob(".*")] == []


def test_processes_that_start_at_once_agree_on_the_secret(tmp_path):
    """Each makes it if it is not there: half of one would be another secret."""
    code = "from console import settings; print(settings.WEIR_SECRET.decode())"
    environment = {**os.environ, "WEIR_HOME": str(tmp_path / "home")}
    environment.pop("WEIR_SECRET", None)
    first = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    said = {process.communicate(timeout=60)[0].strip() for process in first}
    assert said == {(tmp_path / "home" / "secret").read_text()}
    assert stat.S_IMODE((tmp_path / "home" / "secret").stat().st_mode) == 0o600
