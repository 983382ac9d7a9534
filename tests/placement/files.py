"""Model folders whose safetensors have headers and no bytes: what an estimate reads of them."""

import json
import os
import struct
from pathlib import Path

BITS = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "I8": 8, "U8": 8, "I32": 32, "I64": 64}


def write_headers(path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> None:
    """`tensors`: name → type and shape. The file is as long as its header says, and sparse."""
    header, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = BITS[dtype] // 8
        for length in shape:
            size *= length
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + at)


def decoder(
    layers: int, hidden: int, intermediate: int, vocabulary: int, kept: int, packed_bits: int = 16
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """A Llama-like decoder; packed to 4 bit as AWQ does, or to 8 as compressed-tensors."""
    made = {
        "model.embed_tokens.weight": ("BF16", (vocabulary, hidden)),
        "lm_head.weight": ("BF16", (vocabulary, hidden)),
        "model.norm.weight": ("BF16", (hidden,)),
    }
    matrices = {
        "self_attn.q_proj": (hidden, hidden),
        "self_attn.k_proj": (kept, hidden),
        "self_attn.v_proj": (kept, hidden),
        "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (intermediate, hidden),
        "mlp.up_proj": (intermediate, hidden),
        "mlp.down_proj": (hidden, intermediate),
    }
    for layer in range(layers):
        made[f"model.layers.{layer}.input_layernorm.weight"] = ("BF16", (hidden,))
        for name, (rows, columns) in matrices.items():
            made |= _matrix(f"model.layers.{layer}.{name}", rows, columns, packed_bits)
    return made


def _matrix(name: str, rows: int, columns: int, bits: int) -> dict:
    if bits == 4:
        return {
            f"{name}.qweight": ("I32", (columns, rows // 8)),
            f"{name}.qzeros": ("I32", (columns // 128, rows // 8)),
            f"{name}.scales": ("F16", (columns // 128, rows)),
        }
    if bits == 8:
        return {
            f"{name}.weight": ("I8", (rows, columns)),
            f"{name}.weight_scale": ("BF16", (rows, 1)),
        }
    return {f"{name}.weight": ("BF16", (rows, columns))}
