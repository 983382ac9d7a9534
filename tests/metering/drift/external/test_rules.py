"""Which readings of an engine that ran before it was ours belong together."""

import pytest

from control.metering.drift.external.rules import Counted, Series, has_counters, series
from engines.spec import EngineLoad

NOW = 10_000.0
LAST = Counted(counted_from=5_000, prompt_tokens=100, generation_tokens=50)


def load(prompt: int, generation: int, started: float = 0.0) -> EngineLoad:
    return EngineLoad(
        prompt_tokens=prompt, generation_tokens=generation, started_at_seconds=started
    )


@pytest.mark.parametrize(
    ("last", "found", "expected"),
    [
        (None, load(100, 50), Series(NOW, True)),
        (None, load(100, 50, started=9_999), Series(NOW, True)),  # not ours then, perhaps
        (LAST, load(100, 50), Series(5_000, False)),
        (LAST, load(900, 90, started=1_000), Series(5_000, False)),
        (LAST, load(900, 90, started=5_000), Series(5_000, False)),
        (LAST, load(900, 90, started=5_060), Series(5_000, False)),  # their clock is ahead
        (LAST, load(3, 1, started=9_000), Series(9_000, False)),  # restarted: from zero
        (LAST, load(900, 90, started=9_000), Series(9_000, False)),
        (LAST, load(99, 50), Series(NOW, True)),  # fell, and nobody says when
        (LAST, load(100, 49, started=5_030), Series(NOW, True)),
    ],
)
def test_a_reading_goes_on_or_counting_begins(last, found, expected):
    assert series(last, found, NOW) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('vllm:prompt_tokens_total{model_name="m"} 1.0\n', True),
        ("# HELP x\nvllm:prompt_tokens_total 1.0\n", True),
        ("", False),
        ("# HELP vllm:prompt_tokens_total Number\n", False),
        ("vllm:prompt_tokens_total_created 1\nllamacpp:prompt_tokens_total 4\n", False),
        ("<html>not found</html>", False),
    ],
)
def test_only_a_page_with_the_counters_is_a_reading(page, expected):
    assert has_counters(page) is expected
