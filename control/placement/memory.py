"""From a model's config and file sizes to the bytes a launch needs on each device."""

import re
from dataclasses import asdict, dataclass

GIB = 1024**3
MIB = 1024**2
DTYPE_BYTES = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2, "auto": 2}
KV_DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "auto": 0, "float32": 4}  # fp8 and int8: 1

# Layouts whose KV cache is one of the formulas below; any other gets the stated upper bound.
KNOWN_ARCHITECTURES = re.compile(
    r"""(llama4?|mistral3?|gemma[23]?|qwen2_5_vl|qwen3_vl|glm4?)(_text)? | qwen[23]?(_moe|_vl)?
    | mixtral | gpt_oss | gpt2 | gpt_neox | gptj | opt | bloom | falcon | mpt | phi[34]? | phimoe
    | granite(moe)? | olmo[23]? | olmoe | starcoder2 | stablelm | cohere2? | internlm[23]
    | glm4_moe | smollm3 | exaone4? | seed_oss | ernie4_5(_moe)? | deepseek(_v[23])? | kimi_k2
    | minicpm3? | baichuan""",
    re.VERBOSE,
)
LATENT_FIELDS = ("kv_lora_rank", "qk_rope_head_dim")
BLOCK_TOKENS = {"gpu": 16, "cpu": 128}
STEP_TOKENS_DEFAULT = 2048  # max_num_batched_tokens: what a window holds beside itself
CALLS_DEFAULT = 16
SLOTS_MAX = 256
CONTEXT_TOKENS_UNKNOWN = 4096


@dataclass(frozen=True)
class KvCost:
    """KV bytes of a token in layers that keep all tokens, and in those that keep a window."""

    full_bytes: int
    window_bytes: int = 0
    window_tokens: int = 0
    split_by_devices: bool = True  # a latent head is whole on each device
    context_tokens: int = CONTEXT_TOKENS_UNKNOWN
    exact: bool = True
    detail: str = ""

    def to_dict(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Sizes:
    """Bytes on one device: fixed ones, and a KV cache between one full call and all wanted."""

    fixed_bytes: int
    kv_bytes_min: int
    kv_bytes: int
    call_bytes: int

    @property
    def bytes_min(self) -> int:
        return self.fixed_bytes + self.kv_bytes_min


# The stub engine has no model: one small process.
STUB = Sizes(fixed_bytes=96 * MIB, kv_bytes_min=0, kv_bytes=0, call_bytes=0)


@dataclass(frozen=True)
class Demand:
    """What a version asks for: from its arguments and its `memory`."""

    devices: int = 1
    context_tokens: int | None = None
    step_tokens: int = STEP_TOKENS_DEFAULT
    calls: int | None = None
    slots: int | None = None
    kv_tokens: int | None = None
    kv_dtype: str = "auto"


def demand_of(arguments: dict, memory: dict | None) -> Demand:
    wanted = memory or {}
    return Demand(
        devices=int(arguments.get("tensor_parallel_size", 1)),
        context_tokens=_whole(arguments.get("max_model_len")),
        step_tokens=_whole(arguments.get("max_num_batched_tokens")) or STEP_TOKENS_DEFAULT,
        calls=_whole(wanted.get("calls")),
        slots=_whole(arguments.get("max_num_seqs")),
        kv_tokens=_whole(wanted.get("kv_tokens")),
        kv_dtype=str(arguments.get("kv_cache_dtype", "auto")),
    )


def kv_cost(config: dict, kv_dtype: str = "auto") -> KvCost:
    """By architecture; what is not known is bounded from above and says so, never zero."""
    text = config.get("text_config") or config
    kind = str(text.get("model_type") or config.get("model_type") or "")
    layers = int(text.get("num_hidden_layers") or text.get("n_layer") or 0)
    context = int(text.get("max_position_embeddings") or CONTEXT_TOKENS_UNKNOWN)
    size = _element_bytes(config, text, kv_dtype)
    if not layers:
        return _without_layers(context, kind)
    if all(text.get(name) for name in LATENT_FIELDS):
        token = layers * (text["kv_lora_rank"] + text["qk_rope_head_dim"]) * size
        return KvCost(token, split_by_devices=False, context_tokens=context, detail="latent")
    heads = int(text.get("num_attention_heads") or text.get("n_head") or 1)
    head = int(text.get("head_dim") or _hidden(text) // heads or 1)
    if not KNOWN_ARCHITECTURES.fullmatch(kind):
        return KvCost(
            full_bytes=2 * layers * heads * head * size,
            context_tokens=context,
            exact=False,
            detail=f"architecture {kind or '(none)'} is not known: bounded by all of its heads "
            "over the whole context",
        )
    layer_bytes = 2 * int(text.get("num_key_value_heads") or heads) * head * size
    windowed = _window_layers(text, layers)
    return _grouped(layers - windowed, windowed, layer_bytes, text, context)


def call_bytes(cost: KvCost, tokens: int, step_tokens: int, block_tokens: int) -> int:
    """KV cache of one call of that length, in whole blocks; a window needs one block more."""
    whole = -(-tokens // block_tokens) * block_tokens
    if not cost.window_tokens:
        return cost.full_bytes * whole
    held = min(cost.window_tokens - 1 + step_tokens, tokens)
    held = -(-held // block_tokens) * block_tokens + block_tokens
    return cost.full_bytes * whole + cost.window_bytes * held


def sizes(weights_bytes: int, cost: KvCost, demand: Demand, device_kind: str) -> Sizes:
    """Per device: weights and KV heads are split over the devices, overhead is not."""
    parts = demand.devices if cost.split_by_devices else 1
    length = demand.context_tokens or cost.context_tokens
    block = BLOCK_TOKENS[device_kind]
    one = _rounded(-(-call_bytes(cost, length, demand.step_tokens, block) // parts))
    if demand.kv_tokens:
        wanted = least = max(one, _rounded(one * demand.kv_tokens // length))
    elif demand.calls:
        wanted = least = one * demand.calls
    else:
        wanted, least = one * CALLS_DEFAULT, one
    weights = -(-weights_bytes // demand.devices)
    return Sizes(
        fixed_bytes=weights + overhead_bytes(weights_bytes, device_kind),
        kv_bytes_min=least,
        kv_bytes=wanted,
        call_bytes=one,
    )


def slots(kv_bytes: int, size: Sizes, demand: Demand) -> int:
    """Calls at once: twice as many as fit at full length, for most calls are shorter."""
    if demand.slots or demand.calls:
        return demand.slots or demand.calls or 1
    if not size.call_bytes:
        return CALLS_DEFAULT
    full_length = max(1, kv_bytes // size.call_bytes)
    return min(SLOTS_MAX, 2 * full_length)


def overhead_bytes(weights_bytes: int, device_kind: str) -> int:
    """What an engine takes beside weights and KV cache.

    CPU: three Python processes with their imports and a large tokenizer (measured: 2.4 GiB).
    GPU: context, communication, graphs and activations; grows with the model.
    """
    if device_kind == "cpu":
        return 2 * GIB + 512 * MIB
    return 2 * GIB if weights_bytes <= 32 * GIB else 4 * GIB


def unmeasured(weights_bytes: int | None) -> tuple[int, KvCost]:
    """What to book while nothing is on disk: corrected before the engine starts."""
    weights = weights_bytes or 2 * GIB
    # Between 7 and 34 KiB per GiB of weights and token in the models of today: the upper end.
    per_token = max(4096, weights // 16384)
    return weights, KvCost(
        full_bytes=per_token,
        exact=False,
        detail="not measured yet: booked by a guess until the weights are on disk",
    )


def _window_layers(text: dict, layers: int) -> int:
    """How many layers keep a window only."""
    if not text.get("sliding_window"):
        return 0
    if kinds := text.get("layer_types"):
        return sum(kind == "sliding_attention" for kind in kinds)
    if text.get("use_sliding_window") is False:
        return 0
    if pattern := text.get("sliding_window_pattern") or text.get("_sliding_window_pattern"):
        return layers - layers // int(pattern)
    if text.get("model_type") == "gemma2":
        return layers - layers // 2
    return layers if text.get("model_type") in {"mistral", "mixtral", "phi3"} else 0


def _grouped(full: int, windowed: int, layer_bytes: int, text: dict, context: int) -> KvCost:
    """Engines pad the two kinds of layers to groups of equal size."""
    if not full or not windowed:
        window = int(text["sliding_window"]) if windowed else 0
        return KvCost(
            full_bytes=layer_bytes * full,
            window_bytes=layer_bytes * windowed,
            window_tokens=window,
            context_tokens=context,
        )
    size = min(full, windowed)
    if max(full, windowed) < size * 1.5:
        size = max(full, windowed)
    return KvCost(
        full_bytes=layer_bytes * size * -(-full // size),
        window_bytes=layer_bytes * size * -(-windowed // size),
        window_tokens=int(text["sliding_window"]),
        context_tokens=context,
    )


def _without_layers(context: int, kind: str) -> KvCost:
    return KvCost(
        full_bytes=MIB,
        context_tokens=context,
        exact=False,
        detail=f"config of {kind or 'an unnamed architecture'} names no layers: bounded by 1 MiB "
        "a token",
    )


def _hidden(text: dict) -> int:
    return int(text.get("hidden_size") or text.get("n_embd") or text.get("d_model") or 0)


def _element_bytes(config: dict, text: dict, kv_dtype: str) -> int:
    if kv_dtype != "auto":
        return KV_DTYPE_BYTES.get(kv_dtype, 1)
    named = text.get("dtype") or text.get("torch_dtype") or config.get("torch_dtype") or "auto"
    return DTYPE_BYTES.get(str(named).removeprefix("torch."), 2)


def _rounded(count: int) -> int:
    return -(-count // MIB) * MIB


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and value > 0 else None
