"""Calls in threads of a test, none of which holds the test when what it waits for never comes."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from threading import Semaphore, Thread

HANG_SECONDS = 300  # ten times what a step takes where others run beside it on two cores


class Call(Future):
    def result(self, timeout: float = HANG_SECONDS) -> object:
        return super().result(timeout)


class Threads:
    """So many calls at once, as of a pool; but a pool's end waits for its threads however long,
    also when the test has failed and nobody will end what they wait for."""

    def __init__(self, most: int = 64) -> None:
        self._room = Semaphore(most)
        self._calls: list[Call] = []

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, failed: type | None, *_: object) -> None:
        if failed is None:
            _, left = wait(self._calls, HANG_SECONDS)
            assert not left, f"{len(left)} calls that never end"

    def submit(self, act: Callable, *args: object, **named: object) -> Call:
        call = Call()
        self._calls.append(call)
        Thread(target=self._run, args=(call, act, args, named), daemon=True).start()
        return call

    def map(self, act: Callable, values: Iterable) -> list:
        return [call.result() for call in [self.submit(act, value) for value in values]]

    def _run(self, call: Call, act: Callable, args: tuple, named: dict) -> None:
        with self._room:
            try:
                call.set_result(act(*args, **named))
            except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
                call.set_exception(error)
