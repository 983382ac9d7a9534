"""How many tokens a call may make, at most (pure)."""

import msgspec


class Room(msgspec.Struct, frozen=True):
    """How many tokens a call may make: ceilings (None is none) and the route's default."""

    output_tokens_max: int | None = None
    output_tokens_default: int | None = None
    context_tokens: int | None = None

    @property
    def named_most(self) -> int | None:
        """That a call may ask for by number."""
        return lowest(self.output_tokens_max, self.context_tokens)

    @property
    def most(self) -> int | None:
        """That one may make which names no number."""
        return lowest(self.named_most, self.output_tokens_default)


def lowest(*ceilings: int | None) -> int | None:
    return min((ceiling for ceiling in ceilings if ceiling is not None), default=None)
