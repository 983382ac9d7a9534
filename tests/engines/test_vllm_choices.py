"""Which cards run which formats, as the checks of vLLM 0.32 have it at a start."""

import pytest

from engines.vllm.choices import card_wanted

PLAIN = {"weights": "", "dtype": "auto", "cache_type": "auto"}
TURING, AMPERE, ADA, HOPPER, BLACKWELL = "7.5", "8.0", "8.9", "9.0", "10.0"


@pytest.mark.parametrize(
    ("formats", "least", "below"),
    [
        ({}, TURING, "7.0"),
        ({"weights": "awq"}, TURING, "7.0"),
        ({"weights": "fp8_per_tensor"}, TURING, "7.0"),
        ({"weights": "int8_per_channel_weight_only"}, TURING, "7.0"),
        ({"weights": "fp8_per_channel"}, ADA, "8.6"),
        ({"weights": "mxfp4"}, AMPERE, TURING),
        ({"weights": "nvfp4_per_token"}, BLACKWELL, HOPPER),
        ({"dtype": "bfloat16"}, AMPERE, TURING),
        ({"cache_type": "fp8"}, AMPERE, TURING),
        ({"cache_type": "fp8", "latent": True}, ADA, AMPERE),
        ({"cache_type": "fp8_ds_mla", "latent": True}, HOPPER, ADA),
        ({"cache_type": "int8_per_token_head"}, TURING, "7.0"),
        ({"weights": "fp8_per_channel", "cache_type": "fp8"}, ADA, AMPERE),
    ],
)
def test_a_format_runs_from_one_compute_capability_on(formats, least, below):
    wanted = card_wanted(**PLAIN | formats)
    assert wanted.why_not(least) == ""
    assert wanted.why_not(below).endswith(f"wants compute capability {least}, it has {below}")


def test_the_more_demanding_format_is_named():
    wanted = card_wanted("fp8_per_channel", "bfloat16", "fp8")
    assert wanted.why_not(TURING).startswith("fp8_per_channel wants compute capability 8.9")


def test_a_two_digit_capability_is_more_than_a_one_digit_one():
    assert card_wanted("fp8_per_channel", "auto", "auto").why_not("12.0") == ""


def test_a_card_that_does_not_say_what_it_has_is_not_refused():
    assert card_wanted("nvfp4_per_token", "auto", "auto").why_not("") == ""
