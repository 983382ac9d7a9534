"""Cause → cure, as a table."""

import pytest

from control.placement.changes import Changes
from control.recovery import rules
from control.recovery.rules import Cure, Failure, NoCure, cure


@pytest.mark.parametrize(
    ("failure", "changes"),
    [
        # Both sides of a step shrink together.
        (
            Failure(rules.SERVING, slots=16, step_tokens=8192),
            Changes(max_num_seqs=12, max_num_batched_tokens=6144),
        ),
        (
            Failure("memory_short_at_start", slots=256, step_tokens=2048),
            Changes(max_num_seqs=192, max_num_batched_tokens=1536),
        ),
        (
            Failure(rules.SERVING, slots=1, step_tokens=512),
            Changes(max_num_seqs=1, max_num_batched_tokens=384),
        ),
        # It wants more memory, not less.
        (Failure("cache_blocks_short"), Changes(memory_percent=25)),
        (Failure("weights_too_large", memory_percent=25), Changes(memory_percent=50)),
        # The context that fits, if the deployment allows it.
        (
            Failure(rules.CONTEXT, context_fits=384, shorter_allowed=True),
            Changes(max_model_len=384),
        ),
        # Fewer engines on the host, never a smaller KV cache.
        (Failure(rules.HOST, slots=16, host_engines=4), Changes(host_engines_max=3)),
        (Failure(rules.HOST, slots=16, host_engines=1), Changes(memory_percent=25)),
        (Failure(rules.OCCUPIED, in_a_row=2, devices=(7,)), Changes(avoid=(7,))),
    ],
)
def test_each_cause_has_its_cure(failure, changes):
    found = cure(failure)
    assert isinstance(found, Cure)
    assert found.changes == changes


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (Failure(rules.CONTEXT, context_fits=384), "a context of 384 tokens would fit"),
        (Failure(rules.CONTEXT, context_fits=384), "allow_shorter_context"),
        (Failure(rules.CONTEXT, shorter_allowed=True), "give it more memory"),
        (Failure(rules.CONTEXT, context_fits=64, shorter_allowed=True), "give it more memory"),
        (Failure(rules.OCCUPIED, in_a_row=1), "passes by itself"),
        (Failure(rules.SERVING, slots=1, step_tokens=256), "as small as they get"),
        (Failure(rules.SERVING, slots=16, step_tokens=8192, cured=4), "was cured 4 times"),
        (Failure("bad_arguments"), "needs another version"),
    ],
)
def test_what_has_no_cure_says_why(failure, told):
    found = cure(failure)
    assert isinstance(found, NoCure)
    assert told in found.reason
