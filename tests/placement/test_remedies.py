"""What is offered is what a card runs, and over no more cards than a host has."""

from datetime import UTC, datetime

import pytest

from control.catalog import fitting
from control.placement import fit_card, model
from control.placement.cards import DeviceKind
from control.placement.memory import GIB, demand_of
from tests.fleet.rows import a_device, a_node
from tests.placement.test_fit_card import LLAMA_70B
from tests.placement.test_weights import QWEN_14B

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
SHORT = {"max_model_len": 4096}
LATENTS = {
    **QWEN_14B,
    "model_type": "deepseek_v3",
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
}
EXPERTS = {  # 30 billion parameters, nearly all of them of experts
    **QWEN_14B,
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
}
TURING, AMPERE, ADA, HOPPER = "7.5", "8.0", "8.9", "9.0"


def a_card(gib, capability="", **fields):
    return DeviceKind("x", "gpu", gib * GIB, compute_capability=capability, **fields)


def fit(config, card, arguments, memory=None):
    facts = model.read(config, None, arguments)
    [found] = fit_card.fit_card(facts, demand_of(arguments, memory), [card])
    return found


def said(found):
    return {remedy.what: dict(remedy.arguments) for remedy in found.remedies}


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        (TURING, "fp8_per_tensor"),
        (AMPERE, "fp8_per_tensor"),
        ("8.6", "fp8_per_tensor"),
        (ADA, "fp8_per_channel"),
        (HOPPER, "fp8_per_channel"),
        ("12.0", "fp8_per_channel"),
        ("", "fp8_per_channel"),
    ],
)
def test_weights_in_fp8_are_offered_by_the_name_that_the_card_runs(capability, name):
    found = said(fit(QWEN_14B, a_card(24, capability), SHORT))
    [(words, arguments)] = [one for one in found.items() if one[0].startswith("FP8")]
    assert arguments == {"quantization": name}
    assert ("computes in 16 bit" in words) == (name == "fp8_per_tensor")


@pytest.mark.parametrize(
    ("config", "calls", "capability", "offered"),
    [
        (QWEN_14B, 1, TURING, False),
        (QWEN_14B, 1, AMPERE, True),
        (QWEN_14B, 1, HOPPER, True),
        (LATENTS, 5, AMPERE, False),
        (LATENTS, 5, ADA, True),
    ],
)
def test_a_kv_cache_in_fp8_is_offered_where_the_card_has_one(config, calls, capability, offered):
    found = fit(config, a_card(40, capability), {}, {"calls": calls})
    assert not found.fits
    assert ("KV cache in FP8" in said(found)) == offered


@pytest.mark.parametrize(
    ("arguments", "capability", "why"),
    [
        ({"quantization": "fp8_per_channel"}, AMPERE, "fp8_per_channel wants"),
        ({"kv_cache_dtype": "fp8"}, TURING, "a KV cache in fp8 wants"),
        ({"dtype": "bfloat16"}, TURING, "dtype bfloat16 wants"),
        ({}, "7.0", "vLLM wants"),
    ],
)
def test_with_memory_enough_a_format_that_the_card_cannot_run_still_does_not_fit(
    arguments, capability, why
):
    asked = SHORT | arguments
    assert fit(QWEN_14B, a_card(80, HOPPER), asked).fits
    found = fit(QWEN_14B, a_card(80, capability), asked)
    assert not found.fits
    assert found.why.startswith(why)
    assert found.why.endswith(f"it has {capability}")


def test_who_cannot_compute_in_fp8_is_offered_to_store_in_it():
    found = fit(QWEN_14B, a_card(80, AMPERE), SHORT | {"quantization": "fp8_per_channel"})
    assert list(said(found).values()) == [{"quantization": "fp8_per_tensor"}]


def test_int8_while_it_loads_is_for_experts_alone():
    """The engine passes over all other matrices: the model would be as large as before."""
    by_argument = {"quantization": "int8_per_channel_weight_only"}
    dense = fit(QWEN_14B, a_card(24), SHORT)
    assert said(dense)["an INT8 artifact (compressed-tensors)"] == {}
    assert fit(QWEN_14B, a_card(24), SHORT | by_argument).weights_bytes == dense.weights_bytes
    routed = fit(EXPERTS, a_card(44), SHORT)
    [int8] = [arguments for what, arguments in said(routed).items() if "INT8" in what]
    assert int8 == by_argument
    assert fit(EXPERTS, a_card(44), SHORT | by_argument).fits


@pytest.mark.parametrize(
    ("on_one_host", "offered"),
    [(0, 2), (1, None), (2, 2), (8, 2)],
)
def test_over_more_cards_than_a_host_has_nothing_is_offered(on_one_host, offered):
    found = said(fit(QWEN_14B, a_card(24, ADA, on_one_host=on_one_host), SHORT))
    wide = [one["tensor_parallel_size"] for one in found.values() if "tensor_parallel_size" in one]
    assert wide == ([offered] if offered else [])


@pytest.mark.parametrize(("on_one_host", "fits"), [(0, True), (2, False), (3, False), (4, True)])
def test_what_wants_more_cards_than_a_host_has_does_not_fit(on_one_host, fits):
    asked = SHORT | {"tensor_parallel_size": 4}
    found = fit(QWEN_14B, a_card(80, HOPPER, on_one_host=on_one_host), asked)
    assert found.fits == fits
    if not fits:
        assert found.why == f"no host has 4 of them: the largest has {on_one_host}"


@pytest.mark.parametrize(("on_one_host", "most"), [(1, 0), (4, 4), (8, 8), (0, 8)])
def test_two_changes_together_keep_to_the_cards_of_a_host(on_one_host, most):
    found = said(fit(LLAMA_70B, a_card(15, on_one_host=on_one_host), SHORT))
    assert max((one["tensor_parallel_size"] for one in found.values()), default=0) == most


def test_the_fleet_tells_how_many_cards_one_host_has_and_what_they_run(db):
    for name, cards in (("n1", 2), ("n2", 4), ("n3", 1)):
        node = a_node(name, at=AT)
        for number in range(cards):
            l4 = {"kind": "gpu", "name": "NVIDIA L4", "compute_capability": "8.9"}
            a_device(node, 22 * GIB, at=AT, uuid=f"{name}-{number}", **l4)
    a_device(node, 64 * GIB, at=AT)
    found = {kind.name: kind for kind in fitting.device_kinds()}
    l4 = found["NVIDIA L4"]
    assert (l4.in_fleet, l4.on_one_host, l4.compute_capability) == (7, 4, "8.9")
    assert found["RAM"].compute_capability == ""
    assert found["Tesla T4"].on_one_host == 0
