"""A tiny Gemma 3 in GGUF, and what became of it: `tiny_gguf.py write FILE | read FOLDER`.

Run by the engine's Python, which has gguf and tokenizers.
"""

import json
import sys

import numpy as np
from gguf import GGUFWriter
from tokenizers import Tokenizer

LAYERS, WIDTH, HEADS, HEAD, INNER = 6, 8, 2, 4, 16
CONTROL, NORMAL = 3, 1
TOKENS = ("<pad>", "<eos>", "<bos>", "<unk>", "<end_of_turn>", "▁", "a", "b", "ab", "▁ab")
SHAPES = {
    "attn_q": (HEADS * HEAD, WIDTH),
    "attn_k": (HEAD, WIDTH),
    "attn_v": (HEAD, WIDTH),
    "attn_output": (WIDTH, HEADS * HEAD),
    "ffn_gate": (INNER, WIDTH),
    "ffn_up": (INNER, WIDTH),
    "ffn_down": (WIDTH, INNER),
    "attn_norm": (WIDTH,),
    "ffn_norm": (WIDTH,),
    "attn_q_norm": (HEAD,),
    "attn_k_norm": (HEAD,),
    "post_attention_norm": (WIDTH,),
    "post_ffw_norm": (WIDTH,),
}


def write(path: str) -> None:
    writer = GGUFWriter(path, "gemma3")
    writer.add_block_count(LAYERS)
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_key_length(HEAD)
    writer.add_sliding_window(32)
    writer.add_rope_freq_base(1_000_000.0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([-float(number) for number in range(len(TOKENS))])
    writer.add_token_types([CONTROL] * 5 + [NORMAL] * (len(TOKENS) - 5))
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    writer.add_pad_token_id(0)
    writer.add_tensor("token_embd.weight", np.ones((len(TOKENS), WIDTH), np.float32))
    writer.add_tensor("output_norm.weight", np.full(WIDTH, 1.5, np.float32))
    for layer in range(LAYERS):
        for name, shape in SHAPES.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.full(shape, 1.25, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read(folder: str) -> None:
    encoded = Tokenizer.from_file(f"{folder}/tokenizer.json").encode("ab ab")
    sys.stdout.write(json.dumps(encoded.tokens))


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](sys.argv[2])
