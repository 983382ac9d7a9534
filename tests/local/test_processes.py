"""Children come up in stages, come back when they fall, and never outlive us."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from control.management.local.home import Home
from control.management.local.processes import Child, DidNotStart, Supervisor
from tests.threads import HANG_SECONDS

SLEEP = "import time; time.sleep(600)"
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def python(name: str, code: str, **options) -> Child:
    return Child(name, (sys.executable, "-c", code), **options)


def until(holds, what: str) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


async def until_async(holds, what: str) -> None:
    await asyncio.to_thread(until, holds, what)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
async def supervisor(tmp_path, said):
    supervisor = Supervisor(tmp_path, said.append)
    yield supervisor
    await supervisor.stop()
    assert psutil.Process().children() == [] or not supervisor.children


OUTLIVED = """
import subprocess, sys, time
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(left.pid, flush=True)
time.sleep(600)
"""


async def test_one_that_leaves_others_comes_back_while_these_hold_its_pipe(supervisor, tmp_path):
    await supervisor.start(python("parent", OUTLIVED, leaves_others=True))
    [run] = supervisor.stages[0]
    first = run.process
    await until_async(lambda: run.log.last, "it has left somebody")
    [left] = psutil.Process(first.pid).children()
    os.kill(first.pid, signal.SIGKILL)
    await until_async(lambda: run.process is not first, "it comes back")
    assert left.is_running()
    left.kill()


@pytest.fixture
def start_supervised(tmp_path):
    """Starts tests/local/supervised.py; back when it is up, killed at the end."""
    started = []

    def start(**options) -> tuple[subprocess.Popen, Home]:
        home = Home(tmp_path / "home")
        argv = [sys.executable, "-m", "tests.local.supervised", str(home.path)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, **options)
        started.append(process)
        until(lambda: home.running().stage == "ready", "the supervisor did not start")
        return process, home

    yield start
    for process in started:
        process.kill()
        process.wait()


async def test_a_killed_child_comes_back_with_another_pid(supervisor, said):
    await supervisor.start(python("web", SLEEP))
    first = supervisor.children["web"].pid

    os.kill(first, signal.SIGKILL)
    await until_async(lambda: supervisor.children["web"].pid != first, "not restarted")

    assert "web        was ended by SIGKILL: starting again in 0.5 s (logs/web.log)" in said


async def test_the_next_stage_waits_until_the_first_is_ready(supervisor, said, tmp_path):
    mark = tmp_path / "mark"
    late = f"import time; time.sleep(0.3); open({str(mark)!r}, 'w').close(); {SLEEP}"
    await supervisor.start(python("database", late, ready=mark.exists))
    assert mark.exists()
    await supervisor.start(python("web", SLEEP))
    assert said == ["database   ready", "web        started"]


async def test_stops_the_last_stage_first(supervisor, said):
    await supervisor.start(python("database", SLEEP))
    await supervisor.start(python("web", SLEEP))
    await supervisor.stop()
    assert said[-2:] == ["web        stopped", "database   stopped"]


async def test_names_the_child_that_did_not_start_with_its_last_words(supervisor):
    wrong = python("web", "raise SystemExit('no such port')", ready=lambda: False)
    with pytest.raises(DidNotStart) as caught:
        await supervisor.start(python("gateway", SLEEP), wrong)
    assert str(caught.value) == "web ended with exit status 1"
    assert caught.value.lines == ("no such port",)


async def test_a_child_that_never_stays_up_ends_the_start(supervisor):
    await supervisor.start(python("node", "raise SystemExit('no database')"))
    await asyncio.wait_for(supervisor.stopping.wait(), HANG_SECONDS)
    assert supervisor.failure.lines == ("no database",)


async def test_kills_a_child_that_does_not_listen_and_what_it_started(supervisor, said, tmp_path):
    heard = tmp_path / "heard"
    code = f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {DEAF!r}]);"
    code += f"{DEAF.split(';')[0]}; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    code += f"open({str(heard)!r}, 'w').write(str(child.pid)); time.sleep(600)"
    await supervisor.start(python("deaf", code, grace_seconds=0.1, ready=heard.exists))
    await until_async(heard.read_text, "it did not say whom it started")
    grandchild = int(heard.read_text())
    await supervisor.stop()
    assert "deaf       did not stop in time: killed" in said
    until(lambda: not alive(grandchild), "its child outlived it")


async def test_a_second_wish_to_stop_cuts_the_grace(supervisor, tmp_path):
    up = tmp_path / "up"
    code = f"{DEAF.split('time.sleep')[0]} open({str(up)!r}, 'w').close(); time.sleep(600)"
    await supervisor.start(python("deaf", code, grace_seconds=600, ready=up.exists))
    stopping = asyncio.create_task(supervisor.stop())
    await asyncio.sleep(0)
    supervisor.hurry.set()
    await asyncio.wait_for(stopping, HANG_SECONDS)
    assert not supervisor.children


async def test_errors_are_passed_on_and_the_rest_is_in_the_log(supervisor, said, tmp_path):
    code = f"print('INFO x: all is well'); print('ERROR x: broken', flush=True); {SLEEP}"
    await supervisor.start(python("web", code))
    await until_async(lambda: "web        ERROR x: broken" in said, "the error was not passed on")
    assert not any("all is well" in line for line in said)
    assert "all is well" in (tmp_path / "web.log").read_text()


async def test_a_command_that_ends_by_itself(supervisor, said):
    await supervisor.run(python("migrate", "print('ok')"))
    with pytest.raises(DidNotStart, match="migrate ended with exit status 3"):
        await supervisor.run(python("migrate", "raise SystemExit(3)"))
    assert said == ["migrate    done"]


def test_kill_9_of_the_supervisor_takes_its_children_along(start_supervised):
    process, home = start_supervised()
    pids = [child.pid for child in home.running().children.values()]
    assert len(pids) == 3
    process.kill()
    until(lambda: not any(map(alive, pids)), "children outlived their supervisor")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stops_in_order_even_when_started_with_signals_ignored(start_supervised, number):
    def ignore() -> None:
        for one in (signal.SIGINT, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN)

    process, home = start_supervised(preexec_fn=ignore)
    pids = [child.pid for child in home.running().children.values()]
    process.send_signal(number)
    said, _ = process.communicate(timeout=HANG_SECONDS)
    stopped = [line.split()[0] for line in said.splitlines() if line.endswith("stopped")]
    assert stopped[0] == "c"
    assert sorted(stopped[1:]) == ["a", "b"]
    assert not any(map(alive, pids))
    assert process.returncode == 0


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
