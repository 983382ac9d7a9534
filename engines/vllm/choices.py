"""Formats of weights and of the KV cache that vLLM 0.32 has, and what cards they want (pure).

There is no bitsandbytes among them and no GGUF.
"""

from dataclasses import dataclass

from engines.requirements import Numbers, numbers, text
from engines.vllm.releases import RELEASES

# Of an artifact, which its config.json names anyway; or made while the weights load.
QUANTIZATIONS = (
    *("awq", "auto_awq", "awq_marlin", "gptq", "auto_gptq", "gptq_marlin", "moe_wna16"),
    *("fp8", "fbgemm_fp8", "fp_quant", "modelopt", "modelopt_fp4", "modelopt_mxfp8"),
    *("modelopt_mixed", "compressed-tensors", "experts_int8", "quark", "torchao", "inc"),
    *("humming", "mxfp4", "gpt_oss_mxfp4", "deepseek_v4_fp8"),
    *("online", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel"),
    *("int8_per_channel_weight_only", "nvfp4_per_token", "mxfp8"),
)
CACHE_TYPES = (
    *("auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla"),
    *("fp8_per_token_head", "int8_per_token_head", "int4_per_token_head"),
    *("nvfp4", "nvfp4_4over6", "nvfp4_ds_mla", "ultraquant_4bit"),
    *("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc"),
)

# What its checks say at a start; whatever is not named runs wherever the release does.
_WEIGHTS_WANT: dict[str, Numbers] = {
    **dict.fromkeys(("fbgemm_fp8", "experts_int8", "modelopt", "modelopt_mxfp8"), (8, 0)),
    **dict.fromkeys(("mxfp4", "gpt_oss_mxfp4", "mxfp8"), (8, 0)),
    "fp8_per_channel": (8, 9),  # its activations are in FP8 too: by Marlin they would not be
    **dict.fromkeys(("fp_quant", "nvfp4_per_token"), (10, 0)),
}
_DTYPES_WANT: dict[str, Numbers] = {"bfloat16": (8, 0)}
_CACHES_WANT: dict[str, Numbers] = {
    "bfloat16": (8, 0),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2"), (8, 0)),  # by FlashInfer
    "fp8_per_token_head": (8, 9),
    "fp8_ds_mla": (9, 0),
}
_LATENT_FP8_WANTS = (8, 9)  # of a cache of latents: by Triton
_ENGINE_WANTS = min(release.compute_capability for release in RELEASES.values())


@dataclass(frozen=True)
class CardWanted:
    """What must run on it, and the compute capability that this takes."""

    what: str
    capability: Numbers

    def why_not(self, capability: str) -> str:
        """Empty where it can, and where a card does not say what it has."""
        has = numbers(capability)
        if not has or has >= self.capability:
            return ""
        return f"{self.what} wants compute capability {text(self.capability)}, it has {capability}"


def card_wanted(weights: str, dtype: str, cache_type: str, *, latent: bool = False) -> CardWanted:
    """The most demanding of its formats decides."""
    cache = _CACHES_WANT.get(cache_type, ())
    if latent and cache_type.startswith("fp8"):
        cache = max(cache, _LATENT_FP8_WANTS)
    wanted = (
        CardWanted("vLLM", _ENGINE_WANTS),
        CardWanted(weights, _WEIGHTS_WANT.get(weights, ())),
        CardWanted(f"dtype {dtype}", _DTYPES_WANT.get(dtype, ())),
        CardWanted(f"a KV cache in {cache_type}", cache),
    )
    return max(wanted, key=lambda one: one.capability)
