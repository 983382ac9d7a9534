"""Callers that never rest: streams and short calls, from threads, while things are killed."""

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from tests.flows.weir import HANG_SECONDS, Weir, until

CHAT = {"model": "chat-stub", "messages": [{"role": "user", "content": "hi"}]}
AGAIN_SECONDS = 0.1


@dataclass
class Call:
    """What its caller saw of it."""

    stream: bool
    id: str = ""  # of the answer's head; none came: nobody knows whether it was admitted
    status: int = 0
    whole: bool = False
    fault: str = ""


@dataclass
class Traffic:
    weir: Weir
    streams: int = 3
    shorts: int = 2
    body: dict = field(default_factory=lambda: dict(CHAT))
    different: bool = False  # no two prompts alike: engines that die do not die of one of them
    before: set[str] = field(default_factory=set)  # calls that have their event already
    calls: list[Call] = field(default_factory=list)
    open_streams: set[str] = field(default_factory=set)
    _stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def admitted(self) -> set[str]:
        """Known to be: 200 is answered only once an engine works on the call."""
        return {call.id for call in self.calls if call.status == 200}

    @property
    def broken(self) -> list[Call]:
        return [call for call in self.calls if not call.whole]

    def wait_for_streams(self) -> None:
        until(lambda: len(self.open_streams) >= self.streams, "streams in flight")

    def wait_for_answers(self) -> None:
        """Of each kind more than there are callers: some of them have begun after now."""
        begun = len(self.calls)

        def answered() -> bool:
            whole = [call.stream for call in self.calls[begun:] if call.whole]
            return whole.count(True) > self.streams and whole.count(False) > self.shorts

        until(answered, f"calls that succeed again; the last ones: {self.calls[-8:]}")

    def stop(self) -> None:
        self._stopping.set()

    def _call_on(self, stream: bool) -> None:
        with self.weir.client() as client:
            while not self._stopping.is_set():
                call = Call(stream)
                try:
                    self._stream(client, call) if stream else self._ask(client, call)
                except httpx.HTTPError as error:
                    call.fault = repr(error)
                self.open_streams.discard(call.id)
                self.calls.append(call)
                if not call.whole:
                    self._stopping.wait(AGAIN_SECONDS)

    def _body(self) -> dict:
        if not self.different:
            return self.body
        return self.body | {"messages": [{"role": "user", "content": secrets.token_hex(8)}]}

    def _ask(self, client: httpx.Client, call: Call) -> None:
        body = self._body() | {"max_tokens": 2}
        answer = client.post("/v1/chat/completions", json=body)
        _note(call, answer)
        call.whole = answer.status_code == 200 and bool(answer.json()["choices"])

    def _stream(self, client: httpx.Client, call: Call) -> None:
        body = self._body() | {"stream": True}
        with client.stream("POST", "/v1/chat/completions", json=body) as answer:
            _note(call, answer)
            if answer.status_code != 200:
                answer.read()
                call.fault = answer.text[:200]
                return
            self.open_streams.add(call.id)
            lines = [line for line in answer.iter_lines() if line]
            faults = [line for line in lines if _is_error(line)]
            call.whole = lines[-1:] == ["data: [DONE]"] and not faults
            call.fault = "" if call.whole else str(faults or lines[-1:])


def _note(call: Call, answer: httpx.Response) -> None:
    call.id, call.status = answer.headers["x-request-id"], answer.status_code


def _is_error(line: str) -> bool:
    return line.startswith("data: {") and "error" in json.loads(line.removeprefix("data: "))


@contextmanager
def traffic(weir: Weir, **options) -> Iterator[Traffic]:
    """Running while the block does; afterwards every call has ended."""
    known = {call_id for (call_id,) in weir.rows("SELECT call_id FROM control_usageevent")}
    made = Traffic(weir, before=known, **options)
    kinds = [True] * made.streams + [False] * made.shorts
    threads = [threading.Thread(target=made._call_on, args=(kind,), daemon=True) for kind in kinds]
    for thread in threads:
        thread.start()
    try:
        made.wait_for_streams()
        yield made
    finally:
        made.stop()
        for thread in threads:
            thread.join(HANG_SECONDS)
