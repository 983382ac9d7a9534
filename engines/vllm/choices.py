"""Formats of weights and of the KV cache that vLLM 0.32 has: no bitsandbytes, no GGUF (pure)."""

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
