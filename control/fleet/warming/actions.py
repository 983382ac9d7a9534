"""Warms engines up beside the looks at them: typical calls, then one that must succeed."""

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from time import monotonic

from django.utils import timezone

from control.fleet import engine_http
from control.fleet.engine_http import Address, Answer
from control.fleet.own_calls import OwnCall
from control.fleet.warming import rules
from control.states import Purpose

AT_ONCE = 4  # engines; each makes a few calls at once
SECONDS_MAX = 300.0  # for the typical shapes; the last call tells whether it serves
CALL_SECONDS = 120.0
CONTEXT_TOKENS = 2048  # where the engine does not say its context
OWN_CALLS_MAX = 10_000  # that wait to be written down

log = logging.getLogger(__name__)


class WarmUps:
    """One at a time for an engine. It touches no table: the look at the engine moves it."""

    def __init__(self, on_done: Callable[[int], None]) -> None:
        self._on_done = on_done
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="warm up")
        self._calls = ThreadPoolExecutor(AT_ONCE * rules.BATCH_CALLS_MAX, "warm-up call")
        self._running: dict[int, Future[Answer]] = {}
        self._failed: dict[int, int] = {}
        self._warm: set[int] = set()
        self._own_calls: deque[OwnCall] = deque(maxlen=OWN_CALLS_MAX)
        self._lock = Lock()

    def answer(self, replica_id: int, where: Address, slots: int) -> Answer | None:
        """Of a warm-up that has ended, once; None while it runs, from now on if need be."""
        with self._lock:
            running = self._running.get(replica_id)
            if running is None:
                begun = self._pool.submit(self._warm_up, replica_id, where, slots)
                self._running[replica_id] = begun
                begun.add_done_callback(lambda _: self._on_done(replica_id))
            if running is None or not running.done():
                return None
            del self._running[replica_id]
        error = running.exception()
        return Answer(False, f"the warm-up failed: {error}") if error else running.result()

    def failed(self, replica_id: int) -> int:
        """Calls that failed though it said that it serves; one that says it does not may load."""
        return self._failed.get(replica_id, 0)

    def own_calls(self) -> list[OwnCall]:
        """Those that have ended since it was asked last."""
        return [self._own_calls.popleft() for _ in range(len(self._own_calls))]

    def keep_only(self, replica_ids: set[int]) -> None:
        with self._lock:
            self._warm &= replica_ids
            for memory in (self._failed, self._running):
                for gone in set(memory) - replica_ids:
                    memory.pop(gone, None)

    def stop(self) -> None:
        for pool in (self._pool, self._calls):
            pool.shutdown(wait=False, cancel_futures=True)

    # --- in its own thread ---

    def _warm_up(self, replica_id: int, where: Address, slots: int) -> Answer:
        answer = engine_http.probe(where)
        if not answer.good:
            return answer
        if replica_id not in self._warm:
            self._typical(replica_id, where, slots)
            self._warm.add(replica_id)
        answer = self._noted(replica_id, engine_http.one_token, where, CALL_SECONDS)
        if not answer.good:
            self._failed[replica_id] = self._failed.get(replica_id, 0) + 1
        return answer

    def _noted(self, replica_id: int, ask: Callable[..., Answer], *asked: object) -> Answer:
        begun_at = timezone.now()
        answer = ask(*asked)
        call = OwnCall(replica_id, Purpose.WARM_UP, answer, begun_at, timezone.now())
        self._own_calls.append(call)
        return answer

    def _typical(self, replica_id: int, where: Address, slots: int) -> None:
        """Their answers matter to nobody: an engine that cannot be warmed up may still serve."""
        until, number = monotonic() + SECONDS_MAX, 0
        for shape in rules.shapes(engine_http.context_tokens(where) or CONTEXT_TOKENS, slots):
            seconds = max(min(until - monotonic(), CALL_SECONDS), 1.0)
            prompts = [rules.prompt(shape, number + place) for place in range(shape.at_once)]
            number += shape.at_once
            complete = partial(engine_http.complete, logprobs=shape.logprobs)
            ask = partial(self._noted, replica_id, complete, where)
            asked = [self._calls.submit(ask, ids, shape.output_tokens, seconds) for ids in prompts]
            for answer in [one.result() for one in asked]:
                if not answer.good:
                    log.info("%s, warming up with %s: %s", where.url, shape, answer.reason)
