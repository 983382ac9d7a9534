"""What an engine says of the tokens that one stream used, chunk by chunk (pure)."""

import msgspec

from control.gateway.streams import chunks, made


class Metered:
    """`latest` and its text are of the last chunk that told usage."""

    latest: chunks.Usage | None = None
    raw: bytes | msgspec.Raw = b""
    _per_choice = False

    def __init__(self, choices: int) -> None:
        self._choices = choices
        self._by_choice: dict[int, chunks.Usage] = {}

    def note(self, chunk: chunks.Chunk) -> None:
        usage = chunks.usage_of(chunk)
        if usage is None:
            return
        if self._choices > 1 and chunk.choices and len(chunk.choices) == 1:
            # A total grows with each chunk; one that does not is of its choice alone.
            before = self.latest.output if self.latest else 0
            self._per_choice |= 0 < usage.output <= before
            self._by_choice[chunk.choices[0].index] = usage
        elif not chunk.choices:
            self._per_choice = False
        self.latest, self.raw = usage, chunk.usage

    def total(self) -> chunks.Usage | None:
        """The last snapshot; where an engine counts each choice apart, the sum of theirs."""
        if not self._per_choice or self.latest is None:
            return self.latest
        ours = self._by_choice.values()
        return msgspec.structs.replace(
            self.latest,
            output=sum(usage.output for usage in ours),
            reasoning=sum(usage.reasoning for usage in ours),
        )

    def text(self) -> bytes:
        return made.usage_text(self.total()) if self._per_choice else bytes(self.raw)

    @property
    def tells_cached(self) -> bool:
        """Whether the last one says what was cached; engines say it at the very end."""
        return b'"cached_tokens"' in bytes(self.raw)
