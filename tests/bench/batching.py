"""What continuous batching gives on the real small model, direct and through the gateway.

make bench-batching

One call at a time against sixteen at once, the same prompts and lengths, on vLLM with Gemma 3 270M.
The ways are visited in turn and their order reversed each round; the median round is reported.
"""

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from tests.bench.report import ROOT, Target, finish, say, table
from tests.engines.real import LENT
from tests.flows.weir import Weir, until

ROUNDS = 3
AT_ONCE = 16
SERIAL_CALLS = 2
TOKENS = 32
START_SECONDS_MAX = 1800  # weights are fetched and converted by the first run
HANG_SECONDS = 600
QUICKSTART = ROOT / "examples" / "quickstart.yaml"
SERVED_NAME, ROUTE = "gemma-3-270m", "chat-small"
PROMPTS = [f"Story number {number}. Once upon a time, there was a little" for number in range(64)]


@dataclass(frozen=True)
class Way:
    """One way to the engine."""

    name: str
    url: str
    key: str
    model: str


@dataclass
class Rates:
    """Output tokens per second, a figure of each round."""

    serial: list[float] = field(default_factory=list)
    batched: list[float] = field(default_factory=list)


def main() -> None:
    weir = Weir(_service(), **LENT)
    try:
        weir.start(ready=False)
        until(lambda: _ready(weir), f"the model; said:\n{weir.said()}", START_SECONDS_MAX)
        ways = [_through_gateway(weir), _direct(weir)]
        rates = {way: Rates() for way in ways}
        for way in ways:
            asyncio.run(_tokens_a_second(way, 2, 2))  # what a first call alone pays
        for number in range(ROUNDS):
            for way in ways if number % 2 else ways[::-1]:
                rates[way].serial.append(asyncio.run(_tokens_a_second(way, SERIAL_CALLS, 1)))
                rates[way].batched.append(asyncio.run(_tokens_a_second(way, AT_ONCE, AT_ONCE)))
            say(f"round {number + 1} of {ROUNDS}: {list(rates.values())}")
    finally:
        weir.clean_up()
    _report({way.name: rate for way, rate in rates.items()})


def _service() -> str:
    """The quickstart's, with room for the benchmark in its limits and a key that we know."""
    text = QUICKSTART.read_text()
    limits = text[text.index("    limits:") : text.index("    budget:")]
    keys = "    keys: [{name: bench, secret_env: ACME_KEY}]\n"
    arguments = f"arguments: {{max_model_len: 2048, dtype: {_dtype()}}}"
    memory = f"{arguments}\n        memory: {{calls: {AT_ONCE}}}"
    return text.replace(limits, keys).replace("arguments: {max_model_len: 2048}", memory)


def _dtype() -> str:
    """A processor without bfloat16 emulates it, and a batch is then hardly faster than a call."""
    knows = "avx512_bf16" in Path("/proc/cpuinfo").read_text()
    return "bfloat16" if knows else "float32"


def _ready(weir: Weir) -> bool:
    return httpx.get(f"{weir.gateway_url}/ready", timeout=5).status_code == 200


def _through_gateway(weir: Weir) -> Way:
    return Way("through the gateway", weir.gateway_url, weir.key, ROUTE)


def _direct(weir: Weir) -> Way:
    [record] = weir.engines().values()
    [(host, port)] = weir.rows("SELECT host, port FROM control_replica WHERE state = 'ready'")
    key = psutil.Process(record["pid"]).environ()["VLLM_API_KEY"]
    return Way("direct", f"http://{host}:{port}", key, SERVED_NAME)


async def _tokens_a_second(way: Way, calls: int, at_once: int) -> float:
    room = asyncio.Semaphore(at_once)
    limits = httpx.Limits(max_connections=at_once)
    async with httpx.AsyncClient(base_url=way.url, timeout=HANG_SECONDS, limits=limits) as client:
        began = time.monotonic()
        tokens = await asyncio.gather(
            *(_one_call(client, room, way, PROMPTS[number]) for number in range(calls))
        )
        return sum(tokens) / (time.monotonic() - began)


async def _one_call(
    client: httpx.AsyncClient, room: asyncio.Semaphore, way: Way, prompt: str
) -> int:
    body = {"model": way.model, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0}
    body |= {"ignore_eos": True, "stop": ["\u0000never"]}  # the route's own would end it early
    headers = {"authorization": f"Bearer {way.key}"}
    async with room:
        answer = await client.post("/v1/completions", json=body, headers=headers)
    if answer.status_code != 200:
        raise SystemExit(f"{way.name}: {answer.status_code} {answer.text[:300]}")
    return answer.json()["usage"]["completion_tokens"]


# --- the page -------------------------------------------------------------------------------


def _report(rates: dict[str, Rates]) -> None:
    medians = {
        name: (statistics.median(rate.serial), statistics.median(rate.batched))
        for name, rate in rates.items()
    }
    serial, direct = medians["direct"]
    ratios = [after / before for before, after in zip(*_batched(rates), strict=True)]
    rows = [
        [name, f"{one:.1f}", f"{many:.1f}", f"{many / one:.2f}"]
        for name, (one, many) in medians.items()
    ]
    head = ["way", "tokens/s, one at a time", f"tokens/s, {AT_ONCE} at once", "ratio"]
    page = table(head, rows)
    say(page)
    wanted = {
        "batched_x_serial": Target(round(direct / serial, 2), 4, at_least=True),
        "gateway_x_direct": Target(round(statistics.median(ratios), 3), 0.98, at_least=True),
    }
    say(f"gateway against direct in the same round: {', '.join(f'{r:.3f}' for r in ratios)}")
    text = (
        f"{page}\n\nGemma 3 270M in {_dtype()}, {TOKENS} tokens a call, {ROUNDS} rounds, medians."
    )
    finish("batching", "Continuous batching, and what the gateway takes of it", text, wanted)


def _batched(rates: dict[str, Rates]) -> tuple[list[float], list[float]]:
    return rates["direct"].batched, rates["through the gateway"].batched


if __name__ == "__main__":
    main()
