"""The fit card: what fits where, and what only vLLM 0.32 has would make it fit."""

from dataclasses import replace

import pytest

from control.catalog.rules import EngineWanted, VersionWanted, version_problems
from control.placement import cards, fit_card, model, weights
from control.placement.cards import DeviceKind
from control.placement.memory import GIB, Held, demand_of
from tests.placement.test_weights import AWQ, QWEN_14B

LLAMA_70B = {
    "model_type": "llama",
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "intermediate_size": 28_672,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
    "max_position_embeddings": 131_072,
    "torch_dtype": "bfloat16",
}
CARDS = {card.name: card for card in cards.COMMON}
H100, L4, T4 = CARDS["NVIDIA H100 80GB HBM3"], CARDS["NVIDIA L4"], CARDS["Tesla T4"]


def fit(config, card, arguments=None, memory=None, held=None):
    facts = model.read(config, None, arguments or {})
    demand = demand_of(arguments or {}, memory)
    [found] = fit_card.fit_card(facts, demand, [card], held)
    return found


def remedies(found):
    return {remedy.what: remedy for remedy in found.remedies}


def test_a_model_that_fits_says_tokens_and_calls_of_full_length():
    found = fit(QWEN_14B, H100)
    assert found.fits
    assert found.kv_tokens >= 32_768 * found.calls > 0
    assert 150_000 < found.kv_tokens < 260_000  # 192 KiB a token in what 80 GiB leave
    assert found.remedies == ()


@pytest.mark.parametrize(
    ("config", "card", "expected"),
    [
        (QWEN_14B, L4, ["tensor parallel over 2 of them", "FP8", "INT8", "AWQ or GPTQ"]),
        (LLAMA_70B, H100, ["tensor parallel over 2 of them", "AWQ or GPTQ"]),
    ],
)
def test_what_would_make_it_fit_is_said_card_by_card(config, card, expected):
    found = fit(config, card, {"max_model_len": 4096})
    assert not found.fits
    said = " | ".join(remedies(found))
    assert [words for words in expected if words not in said] == []
    assert "bitsandbytes" not in said
    assert "GGUF" not in said


def test_each_remedy_names_arguments_with_which_it_fits():
    found = fit(QWEN_14B, L4, {"max_model_len": 4096})
    for remedy in found.remedies:
        assert remedy.calls >= 1
        again = fit(QWEN_14B, L4, {"max_model_len": 4096, **dict(remedy.arguments)})
        assert again.fits or not remedy.arguments, remedy.what


@pytest.mark.parametrize("card", cards.COMMON, ids=lambda card: card.name)
@pytest.mark.parametrize("config", [QWEN_14B, LLAMA_70B], ids=["14B", "70B"])
@pytest.mark.parametrize("length", [4096, None])
def test_a_version_may_say_whatever_a_remedy_says(config, card, length):
    """Only what the release has that a version pins: its arguments are refused or taken by name."""
    told = {"max_model_len": length} if length else {}
    for remedy in fit(config, card, told, {"calls": 64}).remedies:
        named = told | dict(remedy.arguments)
        wanted = VersionWanted(EngineWanted("vllm", "0.32.0"), {"path": "/m"}, named)
        assert not version_problems("m", "v1", wanted, stub_allowed=False), remedy.what


def test_over_several_mig_slices_nothing_is_offered():
    """CUDA shows an engine one of them alone."""
    slices = DeviceKind("MIG 2g.35gb", "gpu", 33 * GIB, 3, is_slice=True)
    told = " | ".join(remedies(fit(QWEN_14B, slices)))
    assert "tensor parallel" not in told
    assert "quantised while it loads" in told
    asked = fit(QWEN_14B, slices, {"max_model_len": 4096, "tensor_parallel_size": 4})
    assert (asked.fits, asked.why) == (False, "one model over several MIG slices is not offered")


def test_a_context_too_long_is_cured_by_a_shorter_one_or_a_smaller_cache():
    found = fit(QWEN_14B, DeviceKind("x", "gpu", 40 * GIB))
    assert not found.fits
    short = next(remedy for what, remedy in remedies(found).items() if "context of" in what)
    assert fit(QWEN_14B, found.device, dict(short.arguments)).fits
    longer = dict(short.arguments)["max_model_len"] + 1024
    assert not fit(QWEN_14B, found.device, {"max_model_len": longer}).fits
    assert "KV cache in FP8" in remedies(found)


def test_what_no_single_change_cures_two_may():
    found = fit(LLAMA_70B, T4, {"max_model_len": 4096})
    assert found.remedies
    assert all(", and tensor parallel over" in remedy.what for remedy in found.remedies)


@pytest.mark.parametrize(("ram_gib", "offered"), [(0, True), (24, True), (16, False)])
def test_weights_are_offloaded_only_to_ram_that_there_is(ram_gib, offered):
    """12 GiB of them, and 3 for processes, of four fifths that may be booked."""
    card = DeviceKind("x", "gpu", 22 * GIB, host_bytes=ram_gib * GIB)
    found = fit(QWEN_14B, card, {"max_model_len": 4096})
    said = [words for words in remedies(found) if words.startswith("offload")]
    assert bool(said) is offered
    assert not said or "offload of 12 GiB" in said[0]


def test_nothing_is_promised_where_nothing_helps():
    assert fit(LLAMA_70B, DeviceKind("x", "gpu", 4 * GIB)).remedies == ()


def test_an_artifact_in_four_bit_is_not_quantised_again():
    found = fit(QWEN_14B | {"quantization_config": AWQ}, DeviceKind("x", "gpu", 10 * GIB))
    assert not found.fits
    assert not [what for what in remedies(found) if "bit (" in what or "loads" in what]


def test_a_promise_is_kept_or_the_card_says_how_much_it_takes():
    assert not fit(QWEN_14B, H100, memory={"calls": 64}).fits
    held = fit(QWEN_14B, H100, memory={"calls": 4})
    assert held.calls == 4


def test_only_what_a_cpu_can_do_is_offered_for_one():
    found = fit(QWEN_14B, DeviceKind("RAM", "cpu", 24 * GIB), {"max_model_len": 4096})
    assert [what for what in remedies(found) if "AWQ" not in what] == []
    assert not fit(QWEN_14B, found.device, {"tensor_parallel_size": 2}).fits


def test_what_was_measured_decides():
    assert not fit(QWEN_14B, L4, {"max_model_len": 2048}).fits
    assert fit(QWEN_14B, L4, {"max_model_len": 2048}, held={"gpu": Held(16 * GIB, whole=True)}).fits


@pytest.mark.parametrize(
    ("billions", "words", "warns"),
    [
        (8, "16 bit", False),
        (13, "16 bit", False),
        (14, "INT8, or AWQ", True),
        (70.6, "INT8, or AWQ", True),
        (123, "AWQ or GPTQ in 4 bit", True),
    ],
)
def test_guidance_follows_the_size(billions, words, warns):
    from_config = model.read(QWEN_14B, None, {})
    sized = weights.of_parameters(int(billions * 1e9))
    said = fit_card.guidance(replace(from_config, weights=sized))
    assert words in said
    assert ("mathematics and code" in said) is warns


def test_kinds_of_the_fleet_come_first_and_once():
    own = DeviceKind("NVIDIA L4", "gpu", 22 * GIB, in_fleet=3)
    found = cards.kinds([own])
    assert found[0] == own
    assert sum(kind.name == "NVIDIA L4" for kind in found) == 1
