"""Bytes of weights, from headers and from counts, against published figures."""

import json
from dataclasses import replace

import pytest

from control.placement import model, weights
from control.placement.weights import Quantisation, Tensor, of_parameters
from engines import model_folder
from tests.placement.files import decoder, write_headers

GB = 10**9
QWEN_14B = {
    "model_type": "qwen2",
    "num_hidden_layers": 48,
    "hidden_size": 5120,
    "intermediate_size": 13_824,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "vocab_size": 152_064,
    "max_position_embeddings": 32_768,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128}
FOUR = Quantisation("awq", 4, 128)


@pytest.mark.parametrize(
    ("linear", "embedding", "stored", "least", "most"),
    [
        (14e9, 0, Quantisation(), 28, 28),
        (14e9, 0, Quantisation("compressed-tensors", 8), 14, 14),
        (14e9, 0, FOUR, 7, 8),
        (12.4e9, 1.6e9, FOUR, 9.5, 10.5),  # 152 thousand words, in and out
        (7e9, 0, Quantisation(), 14, 14),
    ],
)
def test_weights_by_count_of_parameters(linear, embedding, stored, least, most):
    found = of_parameters(int(linear), int(embedding), stored).total_bytes / GB
    assert least <= found <= most


@pytest.mark.parametrize(
    ("bits", "told", "least", "most"),
    [
        (16, {}, 29.4, 29.7),
        (8, {"quant_method": "compressed-tensors"}, 16.2, 16.6),  # 3.1 GB of them embeddings
        (4, AWQ, 9.8, 10.2),
    ],
)
def test_weights_by_headers_keep_embeddings_in_sixteen_bit(tmp_path, bits, told, least, most):
    config = QWEN_14B | ({"quantization_config": told} if told else {})
    write_headers(tmp_path / "model.safetensors", decoder(48, 5120, 13_824, 152_064, 1024, bits))
    (tmp_path / "config.json").write_text(json.dumps(config))
    rows = [Tensor(*row) for row in model_folder.tensors(tmp_path)]
    found = weights.of_tensors(rows, model_folder.config(tmp_path))
    assert least <= found.total_bytes / GB <= most
    assert found.embedding_bytes == 2 * 152_064 * 5120 * 2
    assert found.parameters == pytest.approx(14.77e9, rel=0.001)
    assert found.method == told.get("quant_method", "")


def test_a_config_alone_counts_nearly_the_same():
    by_config = model.by_config(QWEN_14B)
    assert by_config.parameters == pytest.approx(14.77e9, rel=0.01)
    assert not by_config.exact
    in_four = model.by_config(QWEN_14B | {"quantization_config": AWQ})
    assert 9.5 <= in_four.total_bytes / GB <= 10.5


def test_quantised_while_it_loads_the_matrices_shrink_and_nothing_else():
    plain = of_parameters(1_000_000, 1000)
    found = weights.online(plain, "fp8_per_channel")
    assert found.linear_bytes == plain.linear_bytes // 2
    assert found.embedding_bytes == plain.embedding_bytes
    assert found.online
    assert weights.online(replace(plain, method="awq"), "fp8") == replace(plain, method="awq")


def test_what_is_only_for_experts_leaves_all_else_in_sixteen_bit():
    rows = [
        Tensor("model.layers.0.mlp.experts.0.up_proj.weight", "BF16", (64, 64), 8192),
        Tensor("model.layers.0.mlp.shared_experts.up_proj.weight", "BF16", (64, 64), 8192),
        Tensor("model.layers.0.self_attn.o_proj.weight", "BF16", (64, 64), 8192),
    ]
    plain = weights.of_tensors(rows, {})
    found = weights.of_tensors(rows, {}, quantization="int8_per_channel_weight_only")
    assert plain.expert_bytes == 8192
    assert (found.total_bytes, found.online) == (plain.total_bytes - 4096, True)
    dense = weights.of_tensors(rows[1:], {}, quantization="int8_per_channel_weight_only")
    assert dense == weights.of_tensors(rows[1:], {})


def test_a_config_alone_tells_how_much_of_it_is_experts():
    routed = {"num_experts": 4, "moe_intermediate_size": 256, "n_shared_experts": 1}
    found = model.by_config(QWEN_14B | routed)
    assert found.expert_bytes == 2 * 48 * 4 * 3 * 5120 * 256
    assert model.by_config(QWEN_14B).expert_bytes == 0


def test_over_devices_matrices_are_split_and_norms_are_not():
    rows = [
        Tensor("model.layers.0.mlp.up_proj.weight", "BF16", (64, 64), 8192),
        Tensor("model.norm.weight", "BF16", (64,), 128),
        Tensor("model.layers.0.mlp.gate.weight", "BF16", (8, 64), 1024),
    ]
    found = weights.of_tensors(rows, {})
    assert found.on_each(4) == 8192 // 4 + 128 + 1024


def test_what_the_engine_does_not_load_is_not_counted():
    rows = [
        Tensor("model.embed_tokens.weight", "BF16", (10, 10), 200),
        Tensor("lm_head.weight", "BF16", (10, 10), 200),
        Tensor("model.layers.2.mlp.up_proj.weight", "BF16", (10, 10), 200),
        Tensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", (8,), 32),
    ]
    config = {"tie_word_embeddings": True, "num_hidden_layers": 2}
    assert weights.of_tensors(rows, config).total_bytes == 200
    assert weights.of_tensors(rows, config, drafts=True).total_bytes == 400


def test_stored_in_thirty_two_bit_it_is_served_in_sixteen_unless_asked():
    rows = [Tensor("model.layers.0.mlp.up_proj.weight", "F32", (100, 100), 40_000)]
    config = {"torch_dtype": "float32"}
    assert weights.of_tensors(rows, config).total_bytes == 20_000
    assert weights.of_tensors(rows, config, "float32").total_bytes == 40_000


@pytest.mark.parametrize(
    ("told", "method", "bits"),
    [
        ({}, "", 16),
        (AWQ, "awq", 4),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "gptq", 8),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8", 8),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 128}}},
            },
            "compressed-tensors",
            4,
        ),
    ],
)
def test_how_an_artifact_is_quantised_stands_in_its_config(told, method, bits):
    found = weights.quantisation({"quantization_config": told} if told else {})
    assert (found.method, found.bits) == (method, bits)


def test_facts_of_a_model_come_back_as_they_were_stored():
    facts = model.read(QWEN_14B, None, {})
    assert model.ModelFacts.from_dict(json.loads(json.dumps(facts.to_dict()))) == facts
