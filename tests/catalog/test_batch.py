"""What sets a batch is bounded, and refused in words that say what to do."""

from pathlib import Path

import pytest

from control.catalog.batch import (
    BATCH_ARGUMENTS,
    MAX_NUM_SEQS,
    NO_BENCHMARK,
    NOT_MEASURED,
    Measured,
    batch_problems,
    beside,
)

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "batching.md"


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


def test_the_last_benchmark_of_calls_at_once_is_the_one_of_its_page():
    [direct] = [line for line in PAGE.read_text().splitlines() if line.startswith("| direct")]
    ratio = float(direct.split("|")[-2])
    assert f"{ratio:.1f} times" in MAX_NUM_SEQS.benchmark
    assert PAGE.name in MAX_NUM_SEQS.benchmark


FULL = Measured(812.5, 12, 0.0142, 4096.4, 0.821)


@pytest.mark.parametrize(
    ("measured", "said"),
    [
        (Measured(), [NOT_MEASURED] * 3),
        (
            FULL,
            [
                "812.5 tokens/s with 12 calls at once, in its best minute",
                "read 4,096 tokens of prompts a second at most; first tokens came after 0.82 s in"
                " the worst minute",
                "14.2 ms for each token, in its best minute",
            ],
        ),
        (
            Measured(9.0, 1, None, 5.0),
            [
                "9.0 tokens/s with 1 call at once, in its best minute",
                "read 5 tokens of prompts a second at most",
                NOT_MEASURED,
            ],
        ),
        (Measured(9.0), ["9.0 tokens/s, in its best minute", NOT_MEASURED, NOT_MEASURED]),
    ],
)
def test_beside_each_argument_stands_what_was_measured_with_it(measured, said):
    given = {"max_num_seqs": 8, "speculative_tokens": 3}
    rows = beside(given, measured)
    assert [row.value for row in rows] == [8, None, 3]
    assert [row.measured for row in rows] == said
    assert [row.argument.benchmark == NO_BENCHMARK for row in rows] == [False, True, True]
