"""Prefix routing beside round robin, on two real vLLM engines under a shared-prefix workload.

make bench-prefix

The prefixes of one pass fill the cache of one and a half engines: sent round robin each engine sees
them all and evicts what it will need again; routed by prefix each keeps its own half. Each pass has
prefixes of its own, so that none profits from the one before.
"""

import json
import random
import re
import statistics
import time
from dataclasses import dataclass, field

import httpx
import psutil

from tests.bench.report import Target, finish, say, table
from tests.engines.real import LENT, install_runtime, make_tiny_model
from tests.flows.weir import Weir, until
from tests.servers import SHARED

ROUNDS = 3
PREFIXES = 18
CALLS_EACH = 8
PREFIX_TOKENS = 1280  # of the tiny model, which has a token for each character
CONTEXT_TOKENS = 2048
KV_CALLS = 8  # full-length ones that one engine's cache holds: 12.8 prefixes
START_SECONDS_MAX = 900
POLICIES = ("round_robin", "prefix")
SERVICE = """
apiVersion: weir/v1
tenants:
  - {name: acme, priority: interactive, keys: [{name: bench, secret_env: ACME_KEY}]}
models:
  - name: tiny
    versions:
      - name: v1
        engine: {kind: vllm, version: "0.32.0"}
        source: {path: MODEL}
        arguments: {max_model_len: CONTEXT}
        memory: {calls: KV_CALLS}
deployments:
  - {name: tiny, model: tiny, version: v1, replicas: {min: 2, max: 2}}
routes:
  - {name: round_robin, policy: round_robin, targets: [{deployment: tiny}]}
  - {name: prefix, policy: prefix, targets: [{deployment: tiny}]}
prices:
  - {model: tiny, currency: USD, per_million: {input: "0.10", output: "0.40"}}
"""
_COUNTED = re.compile(r"^vllm:prefix_cache_(queries|hits)_total\{[^}]*\} (\S+)", re.MULTILINE)


@dataclass
class Seen:
    """A figure of each pass."""

    hit_share: list[float] = field(default_factory=list)
    ttft_seconds: list[float] = field(default_factory=list)


def main() -> None:
    folder = SHARED / "tiny-model"
    if not (folder / "model.safetensors").exists():
        make_tiny_model(folder, install_runtime())
    service = SERVICE.replace("MODEL", str(folder)).replace("CONTEXT", str(CONTEXT_TOKENS))
    weir = Weir(service.replace("KV_CALLS", str(KV_CALLS)), WEIR_ENGINE_FAST="1", **LENT)
    try:
        weir.start(ready=False)
        until(lambda: len(_engines(weir)) == 2, "two engines", START_SECONDS_MAX)
        seen = {policy: Seen() for policy in POLICIES}
        for number in range(ROUNDS):
            for policy in POLICIES if number % 2 else POLICIES[::-1]:
                _pass(weir, policy, f"{policy}-{number}", seen[policy])
            say(f"round {number + 1} of {ROUNDS}: {seen}")
    finally:
        weir.clean_up()
    _report(seen)


def _pass(weir: Weir, policy: str, nonce: str, seen: Seen) -> None:
    filler = "ab c" * PREFIX_TOKENS
    prefixes = [f"{nonce} {number:03d} {filler}"[:PREFIX_TOKENS] for number in range(PREFIXES)]
    asked = [(prefix, turn) for turn in range(CALLS_EACH) for prefix in prefixes]
    random.Random(nonce).shuffle(asked)
    engines = _engines(weir)
    before = [_counted(engine) for engine in engines]
    with weir.client() as client:
        ttfts = [_ttft(client, policy, f"{prefix} question {turn}") for prefix, turn in asked]
    after = [_counted(engine) for engine in engines]
    queries, hits = (
        sum(new[name] - old[name] for old, new in zip(before, after, strict=True))
        for name in ("queries", "hits")
    )
    seen.hit_share.append(hits / queries)
    seen.ttft_seconds.append(statistics.median(ttfts))


def _ttft(client: httpx.Client, route: str, text: str) -> float:
    body = {
        "model": route,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 2,
        "temperature": 0,
        "stream": True,
    }
    began = time.monotonic()
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        took = None
        for line in answer.iter_lines():
            if took is None and line.startswith("data: {") and _has_text(json.loads(line[6:])):
                took = time.monotonic() - began
    if took is None:
        raise SystemExit(f"no token came: {answer.status_code}")
    return took


def _has_text(chunk: dict) -> bool:
    return any(
        (c.get("delta") or {}).get("content") or c["finish_reason"] for c in chunk["choices"]
    )


def _engines(weir: Weir) -> list[tuple[str, str]]:
    """Addresses and keys of those that are ready."""
    rows = weir.rows("SELECT id, host, port FROM control_replica WHERE state = 'ready' ORDER BY id")
    records = weir.engines()
    return [
        (f"http://{host}:{port}", psutil.Process(records[number]["pid"]).environ()["VLLM_API_KEY"])
        for number, host, port in rows
    ]


def _counted(engine: tuple[str, str]) -> dict[str, float]:
    url, key = engine
    headers = {"authorization": f"Bearer {key}"}
    text = httpx.get(f"{url}/metrics", headers=headers, timeout=30).text
    return {name: float(value) for name, value in _COUNTED.findall(text)}


def _report(seen: dict[str, Seen]) -> None:
    figures = {
        policy: (statistics.median(one.hit_share), statistics.median(one.ttft_seconds))
        for policy, one in seen.items()
    }
    rows = [
        [policy, f"{100 * hits:.1f} %", f"{1000 * ttft:.1f} ms"]
        for policy, (hits, ttft) in figures.items()
    ]
    page = table(["policy", "prompt tokens found in cache", "median TTFT"], rows)
    say(page)
    hit_ratio = figures["prefix"][0] / max(figures["round_robin"][0], 1e-9)
    ttft_ratio = figures["prefix"][1] / figures["round_robin"][1]
    wanted = {
        "hit_rate_x_round_robin": Target(round(hit_ratio, 2), 1, at_least=True),
        "ttft_x_round_robin": Target(round(ttft_ratio, 2), 1),
    }
    finish("prefix", "Prefix routing beside round robin", f"{page}\n\n{_NOTES}", wanted)


_NOTES = f"""
{PREFIXES} prefixes of {PREFIX_TOKENS} tokens, {CALLS_EACH} calls with each in random order, one at
a time, {ROUNDS} passes a policy in turns; the cache of one engine holds {KV_CALLS} calls of
{CONTEXT_TOKENS} tokens. Hits are the engines' own counters. The median pass is shown.
"""


if __name__ == "__main__":
    main()
