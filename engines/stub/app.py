"""The stub's routes: vLLM's, and /stub/ for the test that scripts it."""

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from engines.stub import answers
from engines.stub.calls import (
    CHAT,
    COMPLETIONS,
    BadCall,
    Call,
    count_tokens,
    first_of,
    plan_of,
    read_call,
)
from engines.stub.chunks import Answer, encode, error_body
from engines.stub.counters import Counters
from engines.stub.http import Request, Response
from engines.stub.pooling import PATHS, Pooled, pooled
from engines.stub.script import BadScript, Script, Scripts, read_script, read_times
from engines.stub.sleep import Sleep

SEEN_MAX = 1000
_GUARDED = ("/v1", "/v2", "/inference", "/cohere")


@dataclass(frozen=True)
class Options:
    """What the stub was started with."""

    served_name: str
    api_key: str
    max_model_len: int
    slots: int
    kv_cache_tokens: int
    defaults: Script  # with tokens and both delays set
    sleep: Sleep | None = None  # in dev mode


class Stub:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.scripts = Scripts()
        self.counters = Counters(options.served_name, time.time(), options.kv_cache_tokens)
        self.stopping = False
        self._seen: deque[dict[str, Any]] = deque(maxlen=SEEN_MAX)
        self._seen_total = 0
        self._health: int | str = 200
        self._slots = asyncio.Semaphore(options.slots)
        self._numbers = count(1)
        self._routes = {
            ("GET", "/health"): self._tell_health,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/version"): self._version,
            ("GET", "/v1/models"): self._models,
            ("POST", "/tokenize"): self._tokenize,
            ("POST", CHAT): self._infer,
            ("POST", COMPLETIONS): self._infer,
            **{("POST", path): self._pool for path in PATHS},
            ("GET", "/stub/seen"): self._tell_seen,
            ("POST", "/stub/script"): self._set_script,
            **(options.sleep.routes if options.sleep else {}),
        }

    async def __call__(self, request: Request, response: Response) -> None:
        key = f"Bearer {self.options.api_key}"
        guarded = self.options.api_key and request.path.startswith(_GUARDED)
        if guarded and request.headers.get("authorization") != key:
            response.send(401, encode({"error": "Unauthorized"}))
            return
        route = self._routes.get((request.method, request.path))
        if route:
            await route(request, response)
            self.counters.failed += response.status >= 500 and request.path != "/health"
        elif any(request.path == path for _, path in self._routes):
            response.send(405, encode({"detail": "Method Not Allowed"}))
        else:
            response.send(404, encode({"detail": "Not Found"}))

    async def _tell_health(self, _request: Request, response: Response) -> None:
        if self._health == "hang":
            await asyncio.Event().wait()
        response.send(int(self._health))

    async def _metrics(self, _request: Request, response: Response) -> None:
        page = self.counters.page().encode()
        response.send(200, page, content_type="text/plain; version=0.0.4; charset=utf-8")

    async def _version(self, _request: Request, response: Response) -> None:
        response.send(200, encode({"version": "stub"}))

    async def _models(self, _request: Request, response: Response) -> None:
        model = {
            "id": self.options.served_name,
            "object": "model",
            "created": int(self.counters.started_at),
            "owned_by": "vllm",
            "root": self.options.served_name,
            "parent": None,
            "max_model_len": self.options.max_model_len,
        }
        response.send(200, encode({"object": "list", "data": [model]}))

    async def _tokenize(self, request: Request, response: Response) -> None:
        given = json.loads(request.body or b"{}")
        number = count_tokens(given.get("messages") or given.get("prompt") or "")
        tokens = {"tokens": list(range(number)), "token_strs": None}
        size = {"count": number, "max_model_len": self.options.max_model_len}
        response.send(200, encode(size | tokens))

    async def _infer(self, request: Request, response: Response) -> None:
        seen = self._see(request)
        try:
            call = read_call(
                request.path, request.body, self.options.served_name, self.options.max_model_len
            )
        except BadCall as refusal:
            seen["outcome"] = "refused"
            response.send(refusal.status, encode(refusal.body))
            return
        try:
            if self.options.sleep:
                await self.options.sleep.is_over()
            await self._answer(call, self.scripts.take(), seen, response)
            seen["outcome"] = "complete"
        except answers.Broken:
            seen["outcome"] = "broken"
        except asyncio.CancelledError:
            self._on_cancel(call, seen, response)
            raise

    async def _pool(self, request: Request, response: Response) -> None:
        """Calls that read and generate nothing."""
        seen, options = self._see(request), self.options
        try:
            given = (options.served_name, options.max_model_len, int(time.time()))
            made = pooled(request.path, request.body, *given)
        except BadCall as refusal:
            seen["outcome"] = "refused"
            response.send(refusal.status, encode(refusal.body))
            return
        script = self.scripts.take()
        if script.status:
            await answers.refuse(script, response)
        else:
            await self._read_through(made, script, response)
            seen["prompt_tokens"] = made.prompt_tokens
        seen["outcome"] = "complete"

    async def _read_through(self, made: Pooled, script: Script, response: Response) -> None:
        async with self._slots:
            self.counters.prompt_tokens += made.prompt_tokens
            await asyncio.sleep(first_of(script.ttft_seconds, self.options.defaults.ttft_seconds))
        response.send(200, encode(made.body))

    async def _answer(self, call: Call, script: Script, seen: dict, response: Response) -> None:
        if script.raw:
            await answers.play(script.raw, response)
        elif script.status:
            await answers.refuse(script, response)
        elif script.hang and script.fail_after_tokens is None:
            await asyncio.Event().wait()
        else:
            await self._generate(call, script, seen, response)

    async def _generate(self, call: Call, script: Script, seen: dict, response: Response) -> None:
        made = plan_of(call, script, self.options.defaults, self.options.max_model_len)
        number = f"{next(self._numbers):016x}"
        answer = answers.begin(call, script, number, self.options.served_name)
        if call.stream:
            # As vLLM does, before the call has a slot: a 200 says nothing yet.
            response.start(answers.EVENT_STREAM)
        try:
            async with self._slot(answer):
                write = answers.stream if call.stream else answers.whole
                await write(answer, call, made, self.counters, response)
                self.counters.finished[made.finish] += call.choices
        finally:
            seen["prompt_tokens"], seen["tokens"] = answer.prompt_tokens, answer.made

    @asynccontextmanager
    async def _slot(self, answer: Answer) -> AsyncIterator[None]:
        counters = self.counters
        counters.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            counters.waiting -= 1
        counters.running += 1
        counters.prompt_tokens += answer.prompt_tokens
        counters.cached_tokens += answer.cached_tokens
        counters.held_tokens += answer.prompt_tokens
        try:
            yield
        finally:
            counters.held_tokens -= answer.prompt_tokens + answer.made
            counters.running -= 1
            self._slots.release()

    def _see(self, request: Request) -> dict[str, Any]:
        try:
            body = json.loads(request.body)
        except ValueError:
            body = None
        headers = {k: v for k, v in request.headers.items() if k != "authorization"}
        seen = {"path": request.path, "headers": headers, "body": body}
        seen |= {"outcome": "running", "prompt_tokens": 0, "tokens": 0}
        self._seen.append(seen)
        self._seen_total += 1
        return seen

    def _on_cancel(self, call: Call, seen: dict[str, Any], response: Response) -> None:
        if self.stopping:
            seen["outcome"] = "broken"
            answers.tell_engine_died(call, response)
        else:
            seen["outcome"] = "aborted"
            self.counters.aborted += 1

    async def _tell_seen(self, _request: Request, response: Response) -> None:
        counters = self.counters
        told = {
            "requests_total": self._seen_total,
            "aborted": counters.aborted,
            "running": counters.running,
            "waiting": counters.waiting,
            "generation_tokens": counters.generation_tokens,
            "requests": list(self._seen),
        }
        response.send(200, encode(told))

    async def _set_script(self, request: Request, response: Response) -> None:
        try:
            self._read_order(json.loads(request.body))
        except (BadScript, ValueError) as error:
            response.send(400, encode(error_body(400, str(error), "BadScript")))
            return
        response.send(200, encode({}))

    def _read_order(self, order: Any) -> None:
        """{"clear": true}, {"health": 503 | "hang"}, {"go_on": true} and {"script": {…},
        "times": n}, or several."""
        known = {"clear", "go_on", "health", "script", "times"}
        if not isinstance(order, dict) or order.keys() - known:
            raise BadScript("an order has script, times, health, go_on and clear, and nothing else")
        if order.get("go_on"):
            self.scripts.go_on()
        if order.get("clear"):
            self.scripts.clear()
            self._health = 200
        if "health" in order:
            self._health = _read_health(order["health"])
        if "script" in order:
            given = dict(order["script"])
            # A member of the script too, for those who put all knobs in one place.
            if "health" in given:
                self._health = _read_health(given.pop("health"))
            if given:
                self.scripts.add(read_script(given), read_times(order.get("times", 1)))


def _read_health(value: Any) -> int | str:
    if value == "hang" or (isinstance(value, int) and 100 <= value <= 599):
        return value
    raise BadScript(f"health must be a status or 'hang', not {value!r}")
