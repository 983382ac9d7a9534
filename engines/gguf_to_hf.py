"""A Gemma 3 text model in GGUF -> a folder that engines load: `gguf_to_hf.py IN.gguf FOLDER`.

Run by the engine's own Python, which has numpy, gguf and tokenizers. Writes lines "PERCENT WHAT".
"""

import json
import re
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader, dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # token types of GGUF
FULL_ATTENTION_EVERY = 6
LOCAL_ROPE_THETA = 10_000.0
SPACE = "▁"
_TENSOR = re.compile(r"blk\.(\d+)\.(\w+)\.weight")
_OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_INNER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# The checkpoint is a base model: a transcript with one example is what it goes on from best.
_TEMPLATE = (
    "{{ bos_token }}"
    "{%- if messages[0]['role'] != 'system' -%}"
    "{{ 'A helpful assistant answers questions briefly and correctly.\\n\\n"
    "Question: What colour is the sky?\\nAnswer: The sky is blue.\\n\\n' }}"
    "{%- endif -%}"
    "{%- for m in messages -%}"
    "{%- set text = m['content'] if m['content'] is string"
    " else m['content'] | map(attribute='text') | join('') -%}"
    "{%- if m['role'] == 'system' -%}{{ text | trim ~ '\\n\\n' }}"
    "{%- elif m['role'] == 'assistant' -%}{{ 'Answer: ' ~ text | trim ~ '\\n\\n' }}"
    "{%- else -%}{{ 'Question: ' ~ text | trim ~ '\\n' }}"
    "{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ 'Answer:' }}{%- endif -%}"
)


def main() -> None:
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    say(0, "reads the file")
    reader = GGUFReader(source)
    facts = {name: value.contents() for name, value in reader.fields.items()}
    if facts["general.architecture"] != "gemma3":
        sys.exit(f"can turn gemma3 only, not {facts['general.architecture']}")
    write_json(out / "config.json", config(facts))
    write_json(out / "generation_config.json", generation_config(facts))
    write_weights(out / "model.safetensors", reader.tensors)
    say(60, "rebuilds the tokenizer")
    tokenizer(facts).save(str(out / "tokenizer.json"))
    write_json(out / "tokenizer_config.json", tokenizer_config(facts))
    (out / "chat_template.jinja").write_text(_TEMPLATE)
    say(100, "done")


def say(percent: int, what: str) -> None:
    sys.stdout.write(f"{percent} {what}\n")
    sys.stdout.flush()


def write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1))


def config(facts: dict[str, Any]) -> dict[str, Any]:
    """What GGUF does not say (local rope, pattern of layers, scale) is constant in Gemma 3."""

    def of(name: str) -> Any:
        return facts[f"gemma3.{name}"]

    layers = range(1, of("block_count") + 1)
    rope = {"rope_type": "default"}
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "dtype": "bfloat16",
        "vocab_size": len(facts["tokenizer.ggml.tokens"]),
        "hidden_size": of("embedding_length"),
        "intermediate_size": of("feed_forward_length"),
        "num_hidden_layers": of("block_count"),
        "num_attention_heads": of("attention.head_count"),
        "num_key_value_heads": of("attention.head_count_kv"),
        "head_dim": of("attention.key_length"),
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": of("context_length"),
        "rms_norm_eps": 1e-6,
        "query_pre_attn_scalar": of("attention.key_length"),
        "sliding_window": of("attention.sliding_window"),
        "layer_types": [
            "sliding_attention" if layer % FULL_ATTENTION_EVERY else "full_attention"
            for layer in layers
        ],
        "rope_parameters": {
            "full_attention": rope | {"rope_theta": of("rope.freq_base")},
            "sliding_attention": rope | {"rope_theta": LOCAL_ROPE_THETA},
        },
        "attention_bias": False,
        "attention_dropout": 0.0,
        "tie_word_embeddings": True,
        "use_cache": True,
        "final_logit_softcapping": None,
        "attn_logit_softcapping": None,
        "bos_token_id": facts["tokenizer.ggml.bos_token_id"],
        "eos_token_id": facts["tokenizer.ggml.eos_token_id"],
        "pad_token_id": facts["tokenizer.ggml.padding_token_id"],
    }


def generation_config(facts: dict[str, Any]) -> dict[str, Any]:
    end_of_turn = facts["tokenizer.ggml.tokens"].index("<end_of_turn>")
    return {
        "bos_token_id": facts["tokenizer.ggml.bos_token_id"],
        "eos_token_id": [facts["tokenizer.ggml.eos_token_id"], end_of_turn],
        "pad_token_id": facts["tokenizer.ggml.padding_token_id"],
        "do_sample": True,
        "top_k": 64,
        "top_p": 0.95,
    }


def write_weights(path: Path, tensors: list[Any]) -> None:
    """One tensor in memory at a time: the header needs shapes only."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        end = offset + 2 * int(tensor.n_elements)
        shape = [int(size) for size in tensor.shape[::-1]]  # GGUF names the fastest one first
        header[hf_name(tensor.name)] = {
            "dtype": "BF16",
            "shape": shape,
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for number, tensor in enumerate(tensors):
            say(5 + 55 * number // len(tensors), f"tensor {number + 1} of {len(tensors)}")
            file.write(values(tensor).tobytes())


def hf_name(name: str) -> str:
    if name in _OUTER:
        return _OUTER[name]
    found = _TENSOR.fullmatch(name)
    if not found or found.group(2) not in _INNER:
        sys.exit(f"unknown tensor {name}")
    return f"model.layers.{found.group(1)}.{_INNER[found.group(2)]}.weight"


def values(tensor: Any) -> np.ndarray:
    numbers = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    # llama.cpp stores the norms of Gemma as one plus the weight.
    return bfloat16(numbers - 1.0 if "norm" in tensor.name else numbers)


def bfloat16(numbers: np.ndarray) -> np.ndarray:
    """The upper half of each float's bits, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def tokenizer(facts: dict[str, Any]) -> Tokenizer:
    """SentencePiece BPE with byte fallback, as Gemma's own tokenizer.json has it."""
    tokens, types = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    made = Tokenizer(
        models.BPE(
            vocab={token: number for number, token in enumerate(tokens)},
            merges=merges(tokens, types, facts["tokenizer.ggml.scores"]),
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
            ignore_merges=False,
        )
    )
    made.normalizer = normalizers.Replace(" ", SPACE)
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    for kind, special in ((CONTROL, True), (USER_DEFINED, False)):
        added = [
            AddedToken(token, special=special, normalized=False)
            for token, one in zip(tokens, types, strict=True)
            if one == kind
        ]
        (made.add_special_tokens if special else made.add_tokens)(added)
    bos = facts["tokenizer.ggml.bos_token_id"]
    made.post_processor = TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", bos)]
    )
    return made


def merges(tokens: list[str], types: list[int], scores: list[float]) -> list[tuple[str, str]]:
    """GGUF keeps scores, BPE wants an order: the better a piece, the earlier it is merged."""
    ids = {token: number for number, token in enumerate(tokens)}
    found = []
    for token, kind, score in zip(tokens, types, scores, strict=True):
        if kind == NORMAL and len(token) > 1:
            halves = ((token[:at], token[at:]) for at in range(1, len(token)))
            known = [(left, right) for left, right in halves if left in ids and right in ids]
            known.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
            found += [(score, left, right) for left, right in known]
    found.sort(key=lambda one: (one[0], len(one[1]), len(one[2])), reverse=True)
    return [(left, right) for _, left, right in found]


def tokenizer_config(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "add_bos_token": True,
        "clean_up_tokenization_spaces": False,
        "model_max_length": facts["gemma3.context_length"],
    }


if __name__ == "__main__":
    main()
