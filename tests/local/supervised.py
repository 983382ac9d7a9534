"""A supervisor with two small stages, in a process of its own so that tests can kill it."""

import asyncio
import signal
import sys
from pathlib import Path

from control.management.local.home import Home, Running
from control.management.local.processes import Child, Supervisor

SLEEPER = "import time; time.sleep(600)"


async def main(home: Home) -> None:
    running = Running(stage="starting")

    def tell() -> None:
        running.children = supervisor.children
        home.tell(running)

    supervisor = Supervisor(home.logs, lambda line: print(line, flush=True), tell)  # noqa: T201 - read by the test
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, supervisor.stopping.set)
    await supervisor.start(*(Child(name, (sys.executable, "-c", SLEEPER)) for name in ("a", "b")))
    await supervisor.start(Child("c", (sys.executable, "-c", SLEEPER)))
    running.stage = "ready"
    tell()
    await supervisor.stopping.wait()
    await supervisor.stop()


if __name__ == "__main__":
    place = Home(Path(sys.argv[1]))
    place.make()
    asyncio.run(main(place))
