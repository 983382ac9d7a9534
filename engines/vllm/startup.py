"""A vLLM log → the memory it said it took, and the seconds of its start (lines of vLLM 0.32)."""

import re

from engines.spec import Startup

_GIB = 1024**3
_NUMBER = r"([\d.]+)"
_WEIGHTS = re.compile(rf"Model loading took {_NUMBER} GiB memory")
_USAGE = re.compile(
    rf"Actual usage is {_NUMBER} GiB for consumed memory \(weights \+ non-torch\), "
    rf"{_NUMBER} GiB for peak activation, and {_NUMBER} GiB for CUDAGraph memory"
)
_GRAPHS = re.compile(rf"Graph capturing finished in \d+ secs, took {_NUMBER} GiB")
_KV_BYTES = re.compile(rf"Available KV cache memory: {_NUMBER} GiB")
_KV_TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")
_ENGINE = re.compile(rf"init engine \(profile[^)]*\) took {_NUMBER} s")


def read_startup(log: str) -> Startup:
    """What the log says; with several workers the largest of each, for their devices are alike."""
    usage = _USAGE.findall(log)
    consumed, activation, graphs = (_bytes([row[place] for row in usage]) for place in range(3))
    tokens = [int(text.replace(",", "")) for text in _KV_TOKENS.findall(log)]
    seconds = [float(text) for text in _ENGINE.findall(log)]
    return Startup(
        weights_bytes=_bytes(_WEIGHTS.findall(log)),
        consumed_bytes=consumed,
        activation_bytes=activation,
        graph_bytes=graphs if graphs is not None else _bytes(_GRAPHS.findall(log)),
        kv_bytes=_bytes(_KV_BYTES.findall(log)),
        kv_tokens=max(tokens, default=None),
        capture_seconds=max(seconds, default=0.0),
    )


def _bytes(said: list[str]) -> int | None:
    return max((int(float(text) * _GIB) for text in said), default=None)
