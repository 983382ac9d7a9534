"""A tiny random Llama that real vLLM loads in seconds: `tiny_model.py FOLDER`, engine's Python.

Two layers and a byte-level tokenizer, under a megabyte; what it says has no meaning.
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ("<|bos|>", "<|eos|>", "<|pad|>", "<|user|>", "<|assistant|>")
TEMPLATE = "{% for m in messages %}<|user|>{{ m['content'] }}{% endfor %}<|assistant|>"


def main() -> None:
    folder = Path(sys.argv[1])
    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *SPECIAL]
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    tokenizer(vocabulary).save_pretrained(folder)
    torch.manual_seed(1)
    model(vocabulary).to(torch.bfloat16).save_pretrained(folder)


def tokenizer(vocabulary: dict[str, int]) -> PreTrainedTokenizerFast:
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<|bos|>", eos_token="<|eos|>", pad_token="<|pad|>"
    )
    fast.chat_template = TEMPLATE
    return fast


def model(vocabulary: dict[str, int]) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=32,
            max_position_embeddings=2048,
            bos_token_id=vocabulary["<|bos|>"],
            eos_token_id=vocabulary["<|eos|>"],
        )
    )


if __name__ == "__main__":
    main()
