"""Which calls warm an engine up before tenants' first one, and when it is given up."""

from dataclasses import dataclass

SHORT_TOKENS, BATCH_TOKENS, LONG_TOKENS_MAX = 16, 64, 2048
BATCH_CALLS_MAX = 8
OUTPUT_TOKENS = 4
FIRST_ID, IDS = 100, 150  # ids that nearly every vocabulary has, and no special meaning for
FAILED_MAX = 5  # warm-ups in a row: it says that it serves, and does not


@dataclass(frozen=True)
class Shape:
    """`at_once` calls of so many prompt tokens each."""

    prompt_tokens: int
    output_tokens: int = OUTPUT_TOKENS
    at_once: int = 1
    logprobs: int | None = None


def shapes(context_tokens: int, slots: int) -> tuple[Shape, ...]:
    """Alone and short, as many as come together, and a long prompt: what kernels differ by.

    One asks for log probabilities: what counts them is compiled at the first such call, and
    everybody's answers stand still meanwhile.
    """
    room = max(context_tokens - OUTPUT_TOKENS, 1)
    output = min(OUTPUT_TOKENS, max(context_tokens - 1, 1))
    together = min(slots, BATCH_CALLS_MAX)
    wanted = [Shape(min(SHORT_TOKENS, room), output, logprobs=1)]
    if together > 1:
        wanted.append(Shape(min(BATCH_TOKENS, room), output, together))
    return (*wanted, Shape(min(LONG_TOKENS_MAX, room), output))


def prompt(shape: Shape, number: int) -> list[int]:
    """No two begin alike, so that none is answered from the prefix cache."""
    start = number * 7
    return [FIRST_ID + (start + place * 3) % IDS for place in range(shape.prompt_tokens)]
