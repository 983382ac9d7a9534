"""Fifteen times what an engine can do, for a minute, from callers that do not slow down.

make bench-overload
"""

import asyncio
import statistics
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx

from tests.bench.open_loop import Answer, Caller, request
from tests.bench.report import Target, finish, say, table
from tests.flows.weir import Weir

SLOTS = 32
TOKENS = range(16, 81, 8)  # of an answer: were all alike, slots would end in convoys
TOKEN_SECONDS = 0.02
FIRST_SECONDS = 0.1
MEAN_TOKENS = statistics.mean(TOKENS)
CAPACITY = SLOTS / (FIRST_SECONDS + (MEAN_TOKENS - 1) * TOKEN_SECONDS)  # calls a second
TIMES = 15
SHARES = {"interactive": 0.02, "standard": 0.28, "batch": 0.70}  # of the arrivals
CAPACITY_SECONDS, OVERLOAD_SECONDS, ALONE_CALLS = 15, 60, 20
WAITED_MS = 100  # an answer at arrival takes less
TIMED_OUT_MS = 9_900  # the wait limit is 10 s
SETTLED_SECONDS = 30
REFUSED = (429, 503)
SERVICE = f"""
apiVersion: weir/v1
tenants:
  - {{name: urgent, priority: interactive, keys: [{{name: a, secret_env: KEY_INTERACTIVE}}]}}
  - {{name: usual, priority: standard, keys: [{{name: a, secret_env: KEY_STANDARD}}]}}
  - {{name: bulk, priority: batch, keys: [{{name: a, secret_env: KEY_BATCH}}]}}
models:
  - name: stub
    versions:
      - name: v1
        engine: {{kind: stub}}
        arguments:
          max_model_len: 2048
          kv_cache_tokens: {2048 * SLOTS}
          ttft_seconds: {FIRST_SECONDS}
          token_seconds: {TOKEN_SECONDS}
          tokens: {max(TOKENS)}
        memory: {{calls: {SLOTS}}}
deployments:
  - {{name: stub, model: stub, version: v1, replicas: {{min: 1, max: 1}}}}
routes:
  - {{name: chat, output_tokens_default: {max(TOKENS)}, targets: [{{deployment: stub}}]}}
prices:
  - {{model: stub, currency: USD, per_million: {{input: "0.10", output: "0.40"}}}}
"""
KEYS = {kind: f"weir-{kind:-<40}" for kind in SHARES}


def main() -> None:
    names = {f"KEY_{kind.upper()}": key for kind, key in KEYS.items()}
    weir = Weir(SERVICE, WEIR_GATEWAY_PROCESSES="1", **names)
    try:
        weir.start()
        alone = _run(weir, _alone)
        say(f"alone: {len(alone)} calls")
        busy = _run(weir, lambda caller: caller.keep_busy("interactive", SLOTS, CAPACITY_SECONDS))
        say(f"at capacity: {len(busy)} calls")
        rates = {kind: share * TIMES * CAPACITY for kind, share in SHARES.items()}
        workers = weir.gateway_workers()
        flood = _run(weir, lambda caller: caller.arrive(rates, OVERLOAD_SECONDS, seed=1))
        crashed = workers != weir.gateway_workers()
        holds = _holds_left(weir)
    finally:
        weir.clean_up()
    if crashed:
        raise SystemExit("a gateway worker ended under load: there are no figures")
    _report(alone, busy, flood, holds)


def _run(weir: Weir, act: Callable[[Caller], object]) -> list[Answer]:
    async def run() -> list[Answer]:
        address = urlsplit(weir.gateway_url)
        caller = Caller(address.hostname, address.port, _requests())
        await act(caller)
        say(f"{len(caller.answers)} calls; sent at most {caller.late_seconds:.2f} s late")
        if caller.missed:
            raise SystemExit(f"{caller.missed} calls found no connection: there are no figures")
        return caller.answers

    return asyncio.run(run())


def _requests() -> dict[str, list[bytes]]:
    body = {
        "model": "chat",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return {
        kind: [request("/v1/chat/completions", key, body | {"max_tokens": n}) for n in TOKENS]
        for kind, key in KEYS.items()
    }


async def _alone(caller: Caller) -> None:
    for _ in range(ALONE_CALLS):
        await caller.keep_busy("interactive", 1, 0.001)


def _holds_left(weir: Weir) -> int:
    """Calls that some counter still believes to run, after all have been answered."""
    began = time.monotonic()
    while (left := _open_holds(weir)) and time.monotonic() - began < SETTLED_SECONDS:
        time.sleep(0.5)
    return left


def _open_holds(weir: Weir) -> int:
    port = weir.connections()["metrics_port"]
    text = _metrics(port)
    return sum(
        int(float(line.rsplit(" ", 1)[1]))
        for line in text.splitlines()
        if line.startswith(("weir_in_flight", "weir_waiting{", "weir_holds"))
    )


def _metrics(port: int) -> str:
    return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text


# --- the page -------------------------------------------------------------------------------


def _report(alone: list[Answer], busy: list[Answer], flood: list[Answer], holds: int) -> None:
    served = [answer for answer in flood if answer.whole]
    refused = [answer for answer in flood if answer.status in REFUSED]
    other = [answer for answer in flood if not answer.whole and answer.status not in REFUSED]
    at_arrival = [answer for answer in refused if answer.took_ms <= WAITED_MS]
    timed_out = sum(answer.took_ms >= TIMED_OUT_MS for answer in refused)
    displaced = len(refused) - len(at_arrival) - timed_out
    best = sum(answer.tokens for answer in busy if answer.whole) / _span(busy)
    good = sum(answer.tokens for answer in served) / _span(flood)
    firsts = [answer.first_seconds for answer in served if answer.kind == "interactive"]
    first_alone = statistics.median([answer.first_seconds for answer in alone])
    untold = sum(not answer.retry_after for answer in refused)
    wanted = {
        "goodput_ratio": Target(round(good / best, 3), 0.95, at_least=True),
        "interactive_ttft_p95_ratio": Target(round(_part(firsts, 0.95) / first_alone, 2), 2),
        "queued_timeout_share": Target(
            round(timed_out / (len(served) + timed_out + displaced), 4), 0.01
        ),
        "refusal_ms": Target(_part([answer.took_ms for answer in at_arrival], 0.99), 50),
        "holds_left": Target(holds, 0),
    }
    rows = [[kind, *_counts(kind, flood)] for kind in SHARES]
    page = table(["priority", "calls", "served", "refused", "median TTFT ms", "p95 TTFT ms"], rows)
    page += (
        f"\n\nBest at capacity {best:.0f} tokens/s, in the flood {good:.0f}. TTFT alone"
        f" {1000 * first_alone:.0f} ms. {len(other)} calls ended in another way, {untold} refusals"
        f" came without `Retry-After`, {timed_out} calls waited in vain for the whole wait limit,"
        f" {displaced} left the full queue for a call with more right.\n\n{_NOTES}"
    )
    say(page)
    finish("overload", f"{TIMES} times what the engine can do", page, wanted)


def _counts(kind: str, flood: list[Answer]) -> list[str]:
    own = [answer for answer in flood if answer.kind == kind]
    firsts = [answer.first_seconds for answer in own if answer.whole]
    times = [f"{1000 * _part(firsts, part):.0f}" if firsts else "" for part in (0.5, 0.95)]
    refused = sum(answer.status in REFUSED for answer in own)
    return [str(len(own)), str(len(firsts)), str(refused), *times]


def _part(values: list, part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))] if values else float("inf")


def _span(answers: list[Answer]) -> float:
    first = min(answer.began_at for answer in answers)
    return max(answer.began_at + answer.total_seconds for answer in answers) - first


_NOTES = f"""
The stub engine with {SLOTS} slots, {1000 * FIRST_SECONDS:.0f} ms to the first of {min(TOKENS)} to
{max(TOKENS)} tokens and {1000 * TOKEN_SECONDS:.0f} ms for each further one, behind a real
`weir up` with one gateway process. Arrivals are Poisson and wait for nobody: {TIMES} ×
{CAPACITY:.1f} calls a second for {OVERLOAD_SECONDS} s,
{", ".join(f"{100 * part:.0f} % {kind}" for kind, part in SHARES.items())}.
The best at capacity is {SLOTS} callers in a closed loop. A refusal counts as one at arrival when
the gateway took at most {WAITED_MS} ms for it, by its own `openai-processing-ms`; the 99th
percentile of these is `refusal_ms`. Engine, gateway, client, databases and console share two cores.
"""


if __name__ == "__main__":
    main()
