"""Threads that do something in the same moment, as several workers do."""

from collections.abc import Callable
from threading import Barrier, Thread

from django.db import connection

BEGIN_SECONDS, HANG_SECONDS = 60, 120


def at_once(*acts: Callable[[], object]) -> list:
    """What each gave, in their order. What one raises is raised here; one that hangs ends it."""
    barrier, given, failed = Barrier(len(acts)), [None] * len(acts), []

    def run(number: int, act: Callable[[], object]) -> None:
        try:
            barrier.wait(timeout=BEGIN_SECONDS)
            given[number] = act()
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            failed.append(error)
        finally:
            connection.close()

    threads = [Thread(target=run, args=each, daemon=True) for each in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=HANG_SECONDS)
    if failed:
        raise failed[0]
    assert not any(thread.is_alive() for thread in threads), "one of them hangs"
    return given
