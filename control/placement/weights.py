"""Weights of a model: what its tensors take once served, and on each of several devices."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import NamedTuple

from control.placement.kv_cache import served_bytes

# Quantisation reaches matrices only: embeddings and the output head stay in 16 bit.
_EMBEDDING = re.compile(
    r"(^|\.)(embed_tokens|lm_head|wte|word_embeddings|embed_in|embed_out|tok_embeddings|shared)"
    r"\.weight$"
)
# Whole on each device: a router and the latents of attention are not split.
_WHOLE = re.compile(r"(\.gate|router|kv_a_proj\w*|q_a_proj|norm\w*|wpe)\.weight$")
_EXPERTS = re.compile(r"\.experts\.")  # those that a router chooses among
_PACKED = re.compile(r"\.(qweight|weight_packed)$")
_SCALES = re.compile(r"scale|qzeros|zero_point|g_idx|weight_shape")
_UNUSED = re.compile(r"rotary_emb\.inv_freq$")
_LAYER = re.compile(r"^(?:model\.|language_model\.)*layers\.(\d+)\.")
_FLOATS = {"F64", "F32", "F16", "BF16"}
_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16}

# Quantised while it loads, from an artifact in 16 bit: bits of a weight.
ONLINE_BITS = {
    "fp8": 8.0,
    "fp8_per_tensor": 8.0,
    "fp8_per_block": 8.0,
    "fp8_per_channel": 8.0,
    "int8_per_channel_weight_only": 8.0,
    "mxfp8": 8.25,
    "nvfp4_per_token": 4.5,
}
# These reach the matrices of experts alone: of a model without them they change nothing.
OF_EXPERTS = frozenset({"int8_per_channel_weight_only", "nvfp4_per_token"})


class Tensor(NamedTuple):
    """One entry of a safetensors header."""

    name: str
    dtype: str  # as safetensors writes it: BF16, F8_E4M3, I32
    shape: tuple[int, ...]
    stored_bytes: int


@dataclass(frozen=True)
class Quantisation:
    """How an artifact is stored: nothing named is 16 bit."""

    method: str = ""
    bits: float = 16.0
    group: int = 0  # weights that share a scale and a zero point

    @property
    def bits_stored(self) -> float:
        return self.bits + (16 + self.bits) / self.group if self.group else self.bits


@dataclass(frozen=True)
class Weights:
    """Bytes as served. Linear ones and embeddings are split over devices, the rest is not."""

    linear_bytes: int
    embedding_bytes: int = 0
    whole_bytes: int = 0
    parameters: int = 0
    method: str = ""  # of the artifact, or what it is quantised to while it loads
    bits: float = 16.0
    online: bool = False
    exact: bool = True
    detail: str = ""
    expert_bytes: int = 0  # of the linear ones

    @property
    def total_bytes(self) -> int:
        return self.linear_bytes + self.embedding_bytes + self.whole_bytes

    def on_each(self, devices: int) -> int:
        return -(-(self.linear_bytes + self.embedding_bytes) // devices) + self.whole_bytes

    def to_dict(self) -> dict:
        return asdict(self)

    @staticmethod
    def from_dict(stored: Mapping) -> "Weights":
        known = {field.name for field in fields(Weights)}
        return Weights(**{name: value for name, value in stored.items() if name in known})


def of_parameters(
    linear: int, embedding: int = 0, quantised: Quantisation | None = None, experts: int = 0
) -> Weights:
    """By count alone; embeddings stay in 16 bit. `experts`: how many of the linear are theirs."""
    stored = quantised or Quantisation()
    return Weights(
        linear_bytes=int(linear * stored.bits_stored / 8),
        embedding_bytes=2 * embedding,
        parameters=linear + embedding,
        method=stored.method,
        bits=stored.bits,
        exact=False,
        expert_bytes=int(experts * stored.bits_stored / 8),
    )


def of_tensors(
    tensors: Iterable[Tensor],
    config: dict,
    dtype: str = "auto",
    quantization: str = "",
    *,
    drafts: bool = False,
) -> Weights:
    """From the headers of a model's files: exact but for what an engine repacks.

    `drafts`: its own layers for speculative decoding are served too.
    """
    text = config.get("text_config") or config
    element = served_bytes(config, dtype)
    stored = quantisation(config)
    sums = {"linear": 0, "embedding": 0, "whole": 0, "expert": 0}
    parameters = 0
    for tensor in tensors:
        if _is_unused(tensor, text, drafts):
            continue
        count = _count(tensor)
        kind = _kind(tensor)
        plain = tensor.dtype in _FLOATS and not _SCALES.search(tensor.name)
        served = count * element if plain else tensor.stored_bytes
        sums[kind] += served
        sums["expert"] += served if _EXPERTS.search(tensor.name) else 0
        if not _SCALES.search(tensor.name):
            parameters += _parameters(tensor, count, stored)
    found = Weights(
        linear_bytes=sums["linear"],
        embedding_bytes=sums["embedding"],
        whole_bytes=sums["whole"],
        parameters=parameters,
        method=stored.method,
        bits=stored.bits,
        expert_bytes=sums["expert"],
    )
    return online(found, quantization, element)


def online(weights: Weights, quantization: str, element: int = 2) -> Weights:
    """Of an artifact in 16 bit that the engine quantises while it loads."""
    bits = ONLINE_BITS.get(quantization)
    if bits is None or weights.method:
        return weights
    share = bits / (8 * element)
    reached = weights.expert_bytes if quantization in OF_EXPERTS else weights.linear_bytes
    if not reached:
        return weights
    made = asdict(weights) | {
        "linear_bytes": weights.linear_bytes - reached + int(reached * share),
        "expert_bytes": int(weights.expert_bytes * share),
        "method": quantization,
        "bits": bits,
        "online": True,
    }
    return Weights(**made)


def quantisation(config: dict) -> Quantisation:
    """AWQ, GPTQ, compressed-tensors or FP8, as config.json names it."""
    told = config.get("quantization_config") or (config.get("text_config") or {}).get(
        "quantization_config"
    )
    if not isinstance(told, dict):
        return Quantisation()
    method = str(told.get("quant_method") or "unknown")
    if method == "compressed-tensors":
        groups = told.get("config_groups") or {}
        of_weights = [(group or {}).get("weights") or {} for group in groups.values()]
        first = next(iter(of_weights), {})
        return Quantisation(method, float(first.get("num_bits") or 8), first.get("group_size") or 0)
    bits = told.get("bits") or told.get("w_bit") or (4.25 if method == "mxfp4" else 8)
    group = told.get("group_size") or told.get("q_group_size") or 0
    return Quantisation(method, float(bits), group if group > 0 else 0)


def _is_unused(tensor: Tensor, text: dict, drafts: bool) -> bool:
    """What the files hold and the engine passes over: tied heads, layers that only draft."""
    if _UNUSED.search(tensor.name):
        return True
    if tensor.name.endswith("lm_head.weight") and text.get("tie_word_embeddings") is True:
        return True
    if drafts:
        return False
    layer = _LAYER.match(tensor.name)
    layers = text.get("num_hidden_layers")
    beyond = bool(layer and isinstance(layers, int) and int(layer.group(1)) >= layers)
    return beyond or tensor.name.startswith("mtp.")


def _kind(tensor: Tensor) -> str:
    if _EMBEDDING.search(tensor.name):
        return "embedding"
    scales = _SCALES.search(tensor.name)
    if not scales and (len(tensor.shape) < 2 or _WHOLE.search(tensor.name)):
        return "whole"
    return "linear"


def _count(tensor: Tensor) -> int:
    count = 1
    for size in tensor.shape:
        count *= size
    return count


def _parameters(tensor: Tensor, count: int, stored: Quantisation) -> int:
    if _PACKED.search(tensor.name):
        return int(count * _BITS.get(tensor.dtype, 8) / stored.bits)
    return count
