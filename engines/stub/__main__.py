"""Starts the stub: `python -m engines.stub --port N --served-name NAME ...`."""

import argparse
import asyncio
import os
import signal
import sys
import time
from functools import partial

from engines.stub.app import Options, Stub
from engines.stub.card import STATE, Cards
from engines.stub.failures import FAILURES
from engines.stub.http import Connection
from engines.stub.script import Script
from engines.stub.sleep import Bed, Sleep

# What vLLM says while it starts, each with the share of the start-up time that has passed by then.
_STARTUP = (
    (0.0, "INFO [api_utils.py:347] version 0.32.0"),
    (0.1, "INFO [model.py:733] Resolved architecture: StubForCausalLM"),
    (0.1, "INFO [model.py:2152] Using max model len {max_model_len}"),
    (0.3, "INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: stub"),
    (0.4, "INFO [parallel_state.py:1906] world_size=1 rank=0 local_rank=0 backend=gloo"),
    (0.5, "INFO [cpu_model_runner.py:68] Starting to load model stub..."),
    (0.5, "Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]"),
    (0.6, "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00]"),
    (0.7, "INFO [default_loader.py:501] Loading weights took 0.01 seconds"),
    (0.8, "INFO [cpu_worker.py:90] Warming up model for the compilation..."),
    (
        0.9,
        "INFO [kv_cache_utils.py:2327] CPU KV cache size: {kv_cache_tokens:,} tokens, "
        "Maximum concurrency for {max_model_len:,} tokens per request: {concurrency:.2f}x",
    ),
    (0.9, "INFO [core.py:402] init engine (profile, create kv cache, warmup model) took 0.1 s"),
    (1.0, "INFO [entry.py:140] Starting vLLM server on http://{host}:{port}"),
)


def main() -> None:
    arguments = _parser().parse_args()
    if os.environ.get("WEIR_ALLOW_STUB") != "1":  # noqa: TID251 an entry point of its own
        sys.exit("the stub engine answers without a model: set WEIR_ALLOW_STUB=1 to allow it")
    asyncio.run(_serve(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="engines.stub")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--served-name", default="stub")
    parser.add_argument("--api-key", default=os.environ.get("VLLM_API_KEY", ""))  # noqa: TID251
    parser.add_argument("--max-model-len", type=int, default=2048)
    parser.add_argument("--max-num-seqs", type=int, default=16)
    parser.add_argument("--kv-cache-tokens", type=int, default=65536)
    parser.add_argument("--ttft-seconds", type=float, default=0.01)
    parser.add_argument("--token-seconds", type=float, default=0.002)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--start-seconds", type=float, default=0.0)
    parser.add_argument("--start-failure", choices=sorted(FAILURES))
    parser.add_argument("--start-stall", action="store_true", help="never becomes ready")
    parser.add_argument("--exit-after-seconds", type=float, help="of serving, with code 1")
    parser.add_argument("--enable-sleep-mode", action="store_true")
    parser.add_argument("--device-bytes", type=int, default=0, help="of a fake card, in use")
    parser.add_argument("--asleep-bytes", type=int, default=0, help="of them, that sleep keeps")
    parser.add_argument("--wake-seconds", type=float, default=0.0)
    parser.add_argument("--wake-failure", action="store_true")
    return parser


async def _serve(arguments: argparse.Namespace) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    await _start_up(arguments)
    tasks: set[asyncio.Task] = set()
    cards = Cards(os.environ.get(STATE, ""), os.environ.get("CUDA_VISIBLE_DEVICES", ""))  # noqa: TID251 an entry point of its own
    cards.hold(arguments.device_bytes)
    stub = Stub(_options(arguments, cards))
    server = await loop.create_server(
        partial(Connection, stub, tasks), arguments.host, arguments.port, backlog=1024
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if arguments.exit_after_seconds is not None:
        loop.call_later(arguments.exit_after_seconds, os._exit, 1)
    _say("INFO:     Application startup complete.")
    await stop.wait()
    _say("INFO [launcher.py:304] [shutdown] API server: shutdown triggered mode=abort timeout=0s")
    server.close()
    stub.stopping = True
    running = list(tasks)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    cards.hold(0)


async def _start_up(arguments: argparse.Namespace) -> None:
    begun = time.monotonic()
    shown = vars(arguments) | {
        "concurrency": arguments.kv_cache_tokens / arguments.max_model_len,
    }
    for share, line in _STARTUP:
        wait = begun + share * arguments.start_seconds - time.monotonic()
        await asyncio.sleep(max(0.0, wait))
        _say(line.format(**shown))
        if share >= 0.5 and arguments.start_stall:
            await asyncio.Event().wait()
    if arguments.start_failure:
        _say(FAILURES[arguments.start_failure])
        sys.exit("RuntimeError: Engine core initialization failed. See root cause above.")


def _options(arguments: argparse.Namespace, cards: Cards) -> Options:
    bed = Bed(
        enabled=arguments.enable_sleep_mode,
        device_bytes=arguments.device_bytes,
        asleep_bytes=arguments.asleep_bytes,
        wake_seconds=arguments.wake_seconds,
        wake_failure=arguments.wake_failure,
    )
    in_dev_mode = os.environ.get("VLLM_SERVER_DEV_MODE") == "1"  # noqa: TID251 as vLLM reads it
    return Options(
        sleep=Sleep(bed, cards) if in_dev_mode else None,
        served_name=arguments.served_name,
        api_key=arguments.api_key,
        max_model_len=arguments.max_model_len,
        slots=arguments.max_num_seqs,
        kv_cache_tokens=arguments.kv_cache_tokens,
        defaults=Script(
            ttft_seconds=arguments.ttft_seconds,
            token_seconds=arguments.token_seconds,
            tokens=arguments.tokens,
        ),
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
