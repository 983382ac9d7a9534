"""What sets a batch is bounded, and refused in words that say what to do."""

import pytest

from control.catalog.batch import BATCH_ARGUMENTS, batch_problems


@pytest.mark.parametrize(
    ("arguments", "memory", "expected"),
    [
        ({}, None, ""),
        ({"max_num_seqs": 256, "max_num_batched_tokens": 2048}, {"calls": 16}, ""),
        ({"max_num_seqs": 0}, None, "is 1 to 1,024 calls per step, not 0"),
        ({"max_num_seqs": 2000}, None, "is 1 to 1,024 calls per step, not 2,000"),
        ({"max_num_batched_tokens": 32}, None, "is 64 to 131,072 tokens per step"),
        (
            {"max_num_seqs": 512, "max_num_batched_tokens": 256},
            None,
            "is less than max_num_seqs (512)",
        ),
        (
            {
                "max_num_batched_tokens": 2048,
                "max_model_len": 4096,
                "enable_chunked_prefill": False,
            },
            None,
            "leave enable_chunked_prefill out",
        ),
        ({"max_num_batched_tokens": 2048, "max_model_len": 4096}, None, ""),
        ({"max_num_seqs": 8}, {"calls": 16}, "promises 16 calls, but a step takes 8"),
        ({"speculative_method": "ngram"}, None, "wants speculative_tokens too"),
        ({"speculative_tokens": 3}, None, "wants speculative_method too"),
        ({"speculative_method": "ngram", "speculative_tokens": 4}, None, ""),
        ({"speculative_method": "ngram", "speculative_tokens": 9}, None, "is 1 to 8 tokens"),
    ],
)
def test_a_batch(arguments, memory, expected):
    said = "; ".join(problem.what for problem in batch_problems(arguments, memory))
    assert expected in said
    assert bool(said) is bool(expected)


def test_each_argument_says_what_it_does_and_what_holds_without_it():
    for argument in BATCH_ARGUMENTS:
        assert argument.what
        assert argument.unsaid
        assert argument.benchmark
