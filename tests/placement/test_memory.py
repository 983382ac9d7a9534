"""Bytes of weights and KV cache, against published and measured figures."""

import pytest

from control.placement import memory
from control.placement.kv_cache import KvCost, kv_cost
from control.placement.memory import Demand, Held, sizes
from control.placement.model import ModelFacts, Shape
from control.placement.weights import of_parameters

GEMMA_270M = {
    "model_type": "gemma3_text",
    "num_hidden_layers": 18,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "hidden_size": 640,
    "sliding_window": 512,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 3,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
}


def attention(layers, heads, kv_heads, head_dim=128, kind="llama", **more):
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "torch_dtype": "bfloat16",
        **more,
    }


@pytest.mark.parametrize(
    ("name", "config", "bytes_per_token"),
    [
        ("grouped heads", attention(32, 32, 8), 131_072),
        ("grouped heads, 28 layers", attention(28, 28, 4, kind="qwen2"), 57_344),
        (
            "latent attention",
            {
                "model_type": "deepseek_v3",
                "num_hidden_layers": 61,
                "num_attention_heads": 128,
                "kv_lora_rank": 512,
                "qk_rope_head_dim": 64,
                "torch_dtype": "bfloat16",
            },
            70_272,
        ),
        ("head size is not hidden/heads", attention(28, 16, 8, 128, "qwen3"), 114_688),
        ("all heads", attention(32, 32, None), 524_288),
        ("nested text config", {"text_config": attention(32, 32, 8)}, 131_072),
        ("float32 is served in 16 bit", attention(4, 4, 2, 16) | {"torch_dtype": "float32"}, 512),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_p03_kv_bytes_follow_the_architecture(name, config, bytes_per_token):
    cost = kv_cost(config)
    assert cost.full_bytes == bytes_per_token
    assert cost.exact


def test_an_eight_bit_cache_takes_half():
    assert kv_cost(attention(32, 32, 8), "fp8").full_bytes == 65_536


def test_p03_window_layers_hold_their_window_only():
    config = attention(36, 8, 4, 256, "gemma3_text", sliding_window=1024, sliding_window_pattern=6)
    cost = kv_cost(config)
    naive = 2 * 36 * 4 * 256 * 2 * 131_072
    assert memory.call_bytes(cost, 131_072, 2048, 16) < naive / 4


def test_p03_gemma_agrees_with_the_engine_to_the_byte():
    # vLLM 0.32 said: 1 GiB = 2,730 blocks of 384 KiB, and 101 blocks per call of 2,048 tokens.
    assert memory.call_bytes(kv_cost(GEMMA_270M), 2048, 2048, 128) == 101 * 384 * 1024


def test_p03_unknown_architecture_is_bounded_from_above_and_says_so():
    cost = kv_cost(attention(32, 32, 8, kind="never_seen"))
    assert cost.full_bytes == 524_288
    assert not cost.exact
    assert "never_seen is not known" in cost.detail


def test_config_without_layers_is_bounded_too():
    cost = kv_cost({"model_type": "odd"})
    assert cost.full_bytes > 0
    assert not cost.exact


@pytest.mark.parametrize(
    ("config", "parameters", "devices", "card_gib", "length", "tokens"),
    [
        # reference tables: card size x 0.92 - 2 GiB (4 for the last) - weights = room for tokens
        (attention(28, 28, 4, kind="qwen2"), 7.62e9, 1, 24, 32_768, 110_378),
        (attention(32, 32, 8), 8.03e9, 1, 80, 131_072, 464_015),
        (attention(80, 64, 8), 70.55e9, 4, 80, 131_072, 507_850),
        (attention(48, 32, 4, kind="qwen3_moe"), 30.53e9, 1, 80, 32_768, 160_885),
    ],
)
def test_room_for_tokens_agrees_with_known_cards(
    config, parameters, devices, card_gib, length, tokens
):
    demand = Demand(devices=devices, context_tokens=length)
    size = sizes(int(parameters * 2), kv_cost(config), demand, "gpu")
    weights = size.fixed_bytes - memory.overhead_bytes(int(parameters * 2), "gpu")
    room = card_gib * memory.GIB * 0.92 - weights - 2 * memory.GIB
    assert room / (size.call_bytes / length) == pytest.approx(tokens, rel=0.01)


def test_latent_heads_are_whole_on_every_device():
    one = sizes(8 * memory.GIB, KvCost(70_272, split_by_devices=False), Demand(devices=1), "gpu")
    eight = sizes(8 * memory.GIB, KvCost(70_272, split_by_devices=False), Demand(devices=8), "gpu")
    assert one.call_bytes == eight.call_bytes
    assert eight.fixed_bytes < one.fixed_bytes


@pytest.mark.parametrize(
    ("wanted", "least_calls", "calls"),
    [({}, 1, 16), ({"calls": 4}, 4, 4), ({"kv_tokens": 4096}, 2, 2)],
)
def test_sixteen_calls_unless_the_version_says_otherwise(wanted, least_calls, calls):
    demand = memory.demand_of({"max_model_len": 2048}, wanted)
    size = sizes(memory.GIB, kv_cost(attention(32, 32, 8)), demand, "gpu")
    assert size.kv_bytes_min == least_calls * size.call_bytes
    assert size.kv_bytes == calls * size.call_bytes


def test_the_quickstart_fits_a_host_of_four_gib():
    demand = memory.demand_of({"max_model_len": 2048}, None)
    size = sizes(536_000_000, kv_cost(GEMMA_270M), demand, "cpu")
    assert size.bytes_min < 3.2 * memory.GIB


def test_what_is_not_measured_is_booked_by_a_stated_guess():
    weights, cost = memory.unmeasured(None)
    assert weights > 0
    assert cost.full_bytes > 0
    assert not cost.exact


@pytest.mark.parametrize(
    ("demand", "slots"),
    [(Demand(), 8), (Demand(calls=3), 3), (Demand(slots=5), 5)],
)
def test_slots_are_twice_the_full_length_calls_unless_said(demand, slots):
    size = memory.Sizes(fixed_bytes=1, kv_bytes_min=10, kv_bytes=40, call_bytes=10)
    assert memory.slots(40, size, demand) == slots


@pytest.mark.parametrize(
    ("config", "kv_gib"),
    [(attention(32, 32, 32), 8.0), (attention(28, 28, 4, kind="qwen2"), 0.875)],
)
def test_the_cache_of_sixteen_calls_of_a_thousand_tokens(config, kv_gib):
    demand = memory.demand_of({"max_model_len": 1024}, {"calls": 16})
    assert sizes(0, kv_cost(config), demand, "gpu").kv_bytes == kv_gib * memory.GIB


TINY = attention(2, 4, 4, 32)


@pytest.mark.parametrize(
    ("config", "kv_bytes", "length", "tokens"),
    [
        # As vLLM 0.32 logged: "CPU KV cache size: … tokens".
        (GEMMA_270M, memory.GIB, 2048, 55_356),
        (TINY, memory.GIB, 2048, 1_048_576),
        (TINY, 64 * memory.MIB, 512, 65_536),
    ],
)
def test_tokens_of_a_cache_are_those_that_the_engine_logs(config, kv_bytes, length, tokens):
    demand = Demand(context_tokens=length)
    assert memory.kv_tokens(kv_bytes, kv_cost(config), demand, "cpu") == tokens


def test_no_device_holds_less_than_one_head_of_the_cache():
    four = sizes(0, kv_cost(attention(32, 32, 4)), Demand(devices=4), "gpu")
    eight = sizes(0, kv_cost(attention(32, 32, 4)), Demand(devices=8), "gpu")
    assert eight.call_bytes == four.call_bytes


def test_a_cache_takes_the_type_that_the_arguments_name():
    assert kv_cost(attention(32, 32, 8), dtype="float32").full_bytes == 2 * 131_072


@pytest.mark.parametrize(
    ("held", "whole", "fixed"),
    [
        (None, False, 10),
        (8, True, 8),  # the engine told its largest step as well: less is enough
        (8, False, 10),  # seen from outside: it may not have met its largest step yet
        (12, False, 12),
        (12, True, 12),
        (40, False, 15),  # one launch that leaked does not make the next impossible
    ],
)
def test_what_launches_held_corrects_the_next_estimate(held, whole, fixed):
    assert memory.corrected(10, held and Held(held, whole)) == fixed


@pytest.mark.parametrize(
    ("total_gib", "ratio"), [(8, 0.85), (16, 0.9062), (24, 0.92), (80, 0.92), (141, 0.92)]
)
def test_a_card_of_its_own_is_given_by_its_size(total_gib, ratio):
    assert memory.own_ratio(total_gib * memory.GIB) == ratio


def test_offloaded_weights_are_booked_in_ram_and_not_on_the_card():
    demand = memory.demand_of({"cpu_offload_gb": 10}, None)
    cost = kv_cost(attention(32, 32, 8))
    with_it, without = (sizes(16 * memory.GIB, cost, d, "gpu") for d in (demand, Demand()))
    assert without.fixed_bytes - with_it.fixed_bytes == 10 * memory.GIB
    assert with_it.host_bytes - without.host_bytes == 10 * memory.GIB
    assert without.host_bytes == 3 * memory.GIB  # an API server, and a process of the card
    assert sizes(memory.GIB, cost, demand, "cpu").host_bytes == 0


@pytest.mark.parametrize(
    ("shape", "billions", "demand", "least_gib", "most_gib"),
    [
        (Shape(3584, 18_944, 152_064, 28, 28), 7.6, Demand(step_tokens=2048), 1.5, 3),
        (Shape(3584, 18_944, 152_064, 28, 28), 7.6, Demand(), 2.5, 4.5),
        (Shape(3584, 18_944, 152_064, 28, 28), 7.6, Demand(eager=True), 2, 3.5),
        (Shape(8192, 28_672, 128_256, 80, 64), 70.5, Demand(devices=4), 3, 6),
    ],
)
def test_overhead_grows_with_the_step_and_the_width(shape, billions, demand, least_gib, most_gib):
    of = of_parameters(int(billions * 1e9))
    facts = ModelFacts("m", of, kv_cost(attention(32, 32, 8)), shape)
    found = memory.overhead_bytes(of.total_bytes, "gpu", facts, demand)
    assert least_gib <= found / memory.GIB <= most_gib
