"""KV cache of a call, from a model's config: by kind of layer, in the engine's own blocks."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

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
# This format holds a latent of 512 in 8 bit with its scales, and 64 rotary values in 16 bit.
LATENT_FP8_BYTES = {"fp8_ds_mla": 656}
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
    heads: int = 0  # of keys and values: no device holds less than one; 0 is not known
    group_bytes: int = 0  # of a token, in a group of layers that share a block; 0: all layers

    def to_dict(self) -> dict:
        return asdict(self)

    @staticmethod
    def from_dict(stored: Mapping) -> "KvCost":
        """Members of another release are passed over."""
        known = {field.name for field in fields(KvCost)}
        return KvCost(**{name: value for name, value in stored.items() if name in known})


def parts(cost: KvCost, devices: int) -> int:
    """By how much a device's share of the cache is smaller than the whole."""
    if not cost.split_by_devices:
        return 1
    return min(devices, cost.heads) if cost.heads else devices


def kv_cost(config: dict, kv_dtype: str = "auto", dtype: str = "auto") -> KvCost:
    """By architecture; what is not known is bounded from above and says so, never zero."""
    text = config.get("text_config") or config
    kind = str(text.get("model_type") or config.get("model_type") or "")
    layers = int(text.get("num_hidden_layers") or text.get("n_layer") or 0)
    context = int(text.get("max_position_embeddings") or CONTEXT_TOKENS_UNKNOWN)
    size = KV_DTYPE_BYTES.get(kv_dtype, 1) or served_bytes(config, dtype)
    if not layers:
        return _without_layers(context, kind)
    if all(text.get(name) for name in LATENT_FIELDS):
        of_a_layer = (text["kv_lora_rank"] + text["qk_rope_head_dim"]) * size
        token = layers * LATENT_FP8_BYTES.get(kv_dtype, of_a_layer)
        return KvCost(token, split_by_devices=False, context_tokens=context, detail="latent")
    heads = int(text.get("num_attention_heads") or text.get("n_head") or 1)
    head = int(text.get("head_dim") or _hidden(text) // heads or 1)
    if not KNOWN_ARCHITECTURES.fullmatch(kind):
        return KvCost(
            full_bytes=2 * layers * heads * head * size,
            context_tokens=context,
            heads=heads,
            exact=False,
            detail=f"architecture {kind or '(none)'} is not known: bounded by all of its heads "
            "over the whole context",
        )
    kept = int(text.get("num_key_value_heads") or heads)
    windowed = _window_layers(text, layers)
    cost = _grouped(layers - windowed, windowed, 2 * kept * head * size, text, context)
    return replace(cost, heads=kept)


def served_bytes(config: dict, dtype: str = "auto") -> int:
    """Of one number as it is computed with: engines serve a model stored in 32 bit in 16."""
    if dtype != "auto":
        return DTYPE_BYTES.get(dtype, 2)
    text = config.get("text_config") or config
    named = text.get("dtype") or text.get("torch_dtype") or config.get("torch_dtype") or "auto"
    return min(2, DTYPE_BYTES.get(str(named).removeprefix("torch."), 2))


def call_bytes(cost: KvCost, tokens: int, step_tokens: int, block_tokens: int) -> int:
    """KV cache of one call of that length, in whole blocks; a window needs one block more."""
    whole = -(-tokens // block_tokens) * block_tokens
    if not cost.window_tokens:
        return cost.full_bytes * whole
    held = min(cost.window_tokens - 1 + step_tokens, tokens)
    held = -(-held // block_tokens) * block_tokens + block_tokens
    return cost.full_bytes * whole + cost.window_bytes * held


def tokens_held(
    kv_bytes: int, cost: KvCost, length: int, step_tokens: int, block_tokens: int
) -> int:
    """How many tokens a cache of that size holds in calls of that length, as the engine counts."""
    group = cost.group_bytes or cost.full_bytes + cost.window_bytes
    page = group * block_tokens
    if not page or not length:
        return 0
    blocks_of_a_call = call_bytes(cost, length, step_tokens, block_tokens) // page
    return kv_bytes // page * length // blocks_of_a_call


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
        group_bytes=layer_bytes * size,
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
