"""`weir up` and `weir down`, as people run them: real processes, one home, nothing left behind."""

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import django
import psutil
import psycopg
import pytest

from control.management.local.account import Account
from control.management.local.ports import free_port
from tests.flows.books import books_balance
from tests.flows.weir import HANG_SECONDS, Weir, is_alive, until
from tests.servers import ROOT, servers

NAMES = {"postgres", "valkey", "web", "gateway", "control", "scheduler", "node"}
QUESTION = {"model": "chat-stub", "messages": [{"role": "user", "content": "Hello"}]}
NOTHING = "apiVersion: weir/v1\n"


@pytest.fixture(scope="module")
def weir():
    """With SIGINT ignored, as a shell starts what runs in the background."""
    made = Weir()
    made.options = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    try:
        yield made.start()
    finally:
        made.clean_up()


def answers(weir: Weir) -> bool:
    with weir.client() as client:
        answer = client.post("/v1/chat/completions", json=QUESTION)
    assert answer.status_code == 200, answer.text
    return True


def test_everything_runs_under_one_supervisor_and_answers(weir):
    assert set(weir.pids()) == NAMES
    assert answers(weir)
    books_balance(weir)


def test_a_second_supervisor_of_the_same_home_is_refused(weir):
    refused = weir.weir("up")
    assert refused.returncode == 1
    assert f"already runs in {weir.home.path} (pid {weir.pid})" in refused.stderr


def test_a_taken_port_is_told_with_its_holder_and_the_way_out(weir):
    other = Weir(NOTHING, WEIR_GATEWAY_PORT=weir.environment["WEIR_GATEWAY_PORT"])
    refused = other.weir("up", "--service", str(other.service))
    other.clean_up()
    assert refused.returncode == 1
    assert f"port {weir.environment['WEIR_GATEWAY_PORT']} is taken by " in refused.stderr
    assert "choose another with WEIR_GATEWAY_PORT=" in refused.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"WEIR_GATEWAY_PORT": "7999", "WEIR_CONSOLE_PORT": "7999"}, "are the same: choose two"),
        ({"WEIR_BIND": "192.0.2.1"}, "of 192.0.2.1: Cannot assign requested address; choose"),
    ],
)
def test_what_nobody_can_listen_on_is_told(settings, said):
    other = Weir(NOTHING, **settings)
    refused = other.weir("up", "--service", str(other.service))
    other.clean_up()
    assert refused.returncode == 1
    assert said in refused.stderr


def test_another_home_runs_beside_it_with_servers_of_the_operator(weir):
    server, _, schema = servers.postgres.url.rpartition("/")
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE another TEMPLATE {schema}")
    url = f"{server}/another"
    other = Weir(NOTHING, WEIR_DATABASE_URL=url, WEIR_REDIS_URL=servers.valkey.url)
    try:
        other.start(ready=False)
        assert set(other.pids()) == NAMES - {"postgres", "valkey"}
        assert other.rows("SELECT count(*) FROM control_tenant") == [(0,)]
        other.stop()
        assert other.processes() == []
    finally:
        other.clean_up()
    assert answers(weir)


def test_ctrl_c_stops_everything_even_when_started_with_sigint_ignored(weir):
    weir.process.send_signal(signal.SIGINT)
    assert weir.process.wait(HANG_SECONDS) == 0
    assert weir.processes() == []


def test_the_next_start_serves_before_the_model_does_and_shows_the_same_key(weir):
    kept = weir.home.read("first-key")
    weir.start(ready=False)
    with weir.client() as client:
        assert client.get("/health").status_code == 200
    weir.wait_until_ready()
    until(lambda: kept.strip() in weir.said(), "the card with the key")
    assert answers(weir)
    weir.stop()
    assert weir.processes() == []


def test_in_the_background_it_returns_with_the_card_and_secrets_stay_closed():
    weir = Weir().with_schema()
    try:
        done = weir.weir("up", "--detach", "--service", str(weir.service))
        assert done.returncode == 0, done.stderr
        assert weir.console_url in done.stdout
        assert weir.home.read("first-key").strip() in done.stdout
        for name in ("first-key", "operator", "secret", "connections.json"):
            assert stat.S_IMODE((weir.home.path / name).stat().st_mode) == 0o600
        logs = "".join(path.read_text() for path in weir.home.logs.iterdir())
        for name in ("first-key", "operator", "secret"):
            assert weir.home.read(name).strip() not in logs
        weir.stop()
        assert weir.processes() == []
    finally:
        weir.clean_up()


def test_it_runs_on_when_nobody_reads_what_it_says():
    """As `weir up | head` leaves it."""
    weir = Weir().with_schema()
    try:
        argv = [*weir.command, "up", "--service", str(weir.service)]
        weir.process = subprocess.Popen(argv, env=weir.environment, stdout=subprocess.PIPE)
        weir.process.stdout.close()
        weir.wait_until_ready()
        until(lambda: "welcome" not in weir.home.running().children, "the end of the welcome")
        assert answers(weir)
        weir.stop()
        assert weir.processes() == []
    finally:
        weir.clean_up()


def test_a_service_file_that_is_refused_stops_everything_again():
    weir = Weir("apiVersion: weir/v1\ntenants: [{nam: acme}]\n").with_schema()
    done = weir.weir("up", "--service", str(weir.service))
    try:
        assert done.returncode == 1
        assert f"{weir.service}:2: " in done.stderr
        assert weir.processes() == []
    finally:
        weir.clean_up()


def test_a_server_of_the_operator_that_is_not_there_is_named():
    port = free_port()
    weir = Weir(NOTHING, WEIR_DATABASE_URL=f"postgresql://weir:x@127.0.0.1:{port}/weir")
    done = weir.weir("up", "--service", str(weir.service))
    try:
        assert done.returncode == 1
        assert f"no PostgreSQL at 127.0.0.1:{port} (from WEIR_DATABASE_URL)" in done.stderr
        assert "refused" in done.stderr
        assert weir.processes() == []
    finally:
        weir.clean_up()


def test_a_step_that_fails_is_named_with_its_last_words():
    with psycopg.connect(servers.postgres.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE odd")
    url = servers.postgres.url.rpartition("/")[0] + "/odd"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE control_tenant (id int)")
    weir = Weir(NOTHING, WEIR_DATABASE_URL=url)
    done = weir.weir("up", "--service", str(weir.service))
    try:
        assert done.returncode == 1
        assert "migrate ended with exit status 1" in done.stderr
        assert 'relation "control_tenant" already exists' in done.stderr
        assert weir.processes() == []
    finally:
        weir.clean_up()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_runs_without_root():
    weir = Weir(NOTHING)
    try:
        python = python_for_everybody(weir.folder)
        weir.command[0] = str(python)
        weir.environment |= {
            "PYTHONPATH": python_path(),
            "LD_LIBRARY_PATH": str(python.parent.parent / "lib"),
            "HOME": str(weir.folder),
        }
        nobody = pwd.getpwnam("nobody")
        weir.options = Account("nobody", nobody.pw_uid, nobody.pw_gid).drop()
        os.chown(weir.folder, nobody.pw_uid, nobody.pw_gid)
        weir.start(ready=False)
        assert {psutil.Process(pid).username() for pid in weir.pids().values()} == {"nobody"}
        weir.stop()
        assert weir.processes() == []
    finally:
        weir.clean_up()


def python_for_everybody(folder: Path) -> Path:
    """Ours may lie in root's closed home: then a copy of it, without what is installed there."""
    nobody = pwd.getpwnam("nobody")
    if Account("nobody", nobody.pw_uid, nobody.pw_gid).can_run(Path(sys.executable)):
        return Path(sys.executable)
    copy = folder / "python"
    ignored = shutil.ignore_patterns("site-packages", "test", "__pycache__", "*.a")
    shutil.copytree(sys.base_prefix, copy, symlinks=True, ignore=ignored)
    return copy / "bin" / Path(sys.executable).resolve().name


def python_path() -> str:
    return os.pathsep.join([str(ROOT), str(Path(django.__path__[0]).parent)])


def test_nothing_runs_on_after_all_that(weir):
    assert not is_alive(weir.pid)
