"""Which calls warm an engine up: they fit its context and its slots, and none begin alike."""

import pytest

from control.fleet.warming.rules import Shape, prompt, shapes


@pytest.mark.parametrize(
    ("context_tokens", "slots", "wanted"),
    [
        (32_768, 256, (Shape(16, logprobs=1), Shape(64, at_once=8), Shape(2048))),
        (512, 2, (Shape(16, logprobs=1), Shape(64, at_once=2), Shape(508))),
        (2048, 1, (Shape(16, logprobs=1), Shape(2044))),
        (10, 4, (Shape(6, logprobs=1), Shape(6, at_once=4), Shape(6))),
        (2, 1, (Shape(1, 1, logprobs=1), Shape(1, 1))),
    ],
)
def test_shapes_fit(context_tokens, slots, wanted):
    assert shapes(context_tokens, slots) == wanted
    assert all(one.prompt_tokens + one.output_tokens <= context_tokens for one in wanted)


def test_no_two_prompts_begin_alike():
    prompts = [prompt(Shape(2048), number) for number in range(12)]
    assert len({tuple(ids[:4]) for ids in prompts}) == 12
    assert {len(ids) for ids in prompts} == {2048}
    assert all(100 <= id_ < 250 for ids in prompts for id_ in ids)
