"""What came from each publisher: after a gap in its numbers, or a flood, some may be lost."""

FLOOD = 8  # messages of one publisher between two looks, who sends one a second
PUBLISHERS_MAX = 4096


class Heard:
    """A group drops what a reader has no room for, without a word: only numbers tell."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._lately: dict[str, int] = {}
        self._missed = False

    def note(self, publisher: str, number: int) -> None:
        last = self._last.get(publisher)
        if last is not None and number != last + 1:
            self._missed = True
        if last is None and len(self._last) >= PUBLISHERS_MAX:
            self._last.clear()  # of processes that are gone, most of them
        self._last[publisher] = number
        self._lately[publisher] = self._lately.get(publisher, 0) + 1
        # Its last ones found no room, perhaps, and then no later number shows the gap.
        self._missed |= self._lately[publisher] > FLOOD

    def missed(self) -> bool:
        """Since it was asked last."""
        missed, self._missed = self._missed, False
        self._lately.clear()
        return missed
