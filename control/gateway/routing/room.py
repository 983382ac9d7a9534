"""KV tokens of a replica: how many its calls may hold of its cache, and how many they hold."""

from control.routes.cache_use import USABLE_PERCENT

SHARE_LEAST = 0.5
_LOWER_FACTOR = 0.9
KEPT_OF_SLOTS_LEAST, KEPT_ONE_OF = 12, 16
_RAISE_STEP = 0.005  # each second: a step down is made good in about twenty


def usable_tokens(kv_tokens: int | None, share: float) -> int | None:
    """None is no bound: the engine did not say what its cache holds."""
    return None if kv_tokens is None else int(kv_tokens * share) * USABLE_PERCENT // 100


def share_after(share: float, *, preempted: bool) -> float:
    """After a second in which the engine threw calls out of its cache, or did not."""
    if preempted:
        return max(share * _LOWER_FACTOR, SHARE_LEAST)
    return min(share + _RAISE_STEP, 1.0)


def batch_part(of: int, share: float = 1.0) -> int:
    """What batch may take, of slots or of tokens: the rest is a floor for more urgent calls.

    `share` of that, while it slows those down; one at least, so that it never comes to a halt.
    """
    part = of - max(of // 10, 1) if of > 1 else of
    return part if share >= 1 else max(int(part * share), min(part, 1))


def kept_slots(slots: int) -> int:
    """Slots that only interactive calls may take, while such calls come.

    They begin at once instead of when the next call ends. Of few slots none: an idle one would
    cost more than a turn.
    """
    return 0 if slots < KEPT_OF_SLOTS_LEAST else max(slots // KEPT_ONE_OF, 1)


def held_tokens(input_tokens: int, output_tokens: int, output_expected: int) -> int:
    """What a call that runs holds: its prompt as the engine counts it, what came or will come."""
    return input_tokens + max(output_tokens, output_expected)


class Room:
    """Of one replica, as one process knows it."""

    def __init__(self, kv_tokens: int | None) -> None:
        self.held = 0
        self.batch_held = 0  # of those
        self._share = 1.0
        self._cap = 1.0  # while it is guarded, a part
        self.resize(kv_tokens)

    def resize(self, kv_tokens: int | None) -> None:
        self._kv_tokens = kv_tokens
        self._usable = usable_tokens(kv_tokens, self._share * self._cap)

    def cap(self, share: float) -> None:
        if share != self._cap:
            self._cap = share
            self.resize(self._kv_tokens)

    def fits(self, tokens: int, *, batch: float, slots: int, slots_in_all: int) -> bool:
        """`slots` of `slots_in_all` are this process's, and such a part of the tokens.

        `batch`: its share now if the call is one of these, else 0.
        """
        usable = self._usable
        if usable is None or not self.held:
            return True  # a call that is larger than all of it runs alone
        if slots < slots_in_all:
            usable = usable * slots // slots_in_all
        if self.held + tokens > usable:
            return False
        if not batch or not self.batch_held:
            return True  # one at a time goes on, however large
        return self.batch_held + tokens <= batch_part(usable, batch)

    @property
    def is_tight(self) -> bool:
        """Hardly a call fits any more, whatever slots are free."""
        usable = self._usable
        return usable is not None and self.held * 10 >= usable * 9

    def take(self, tokens: int, *, is_batch: bool) -> None:
        """A negative number gives back."""
        self.held += tokens
        if is_batch:
            self.batch_held += tokens

    def judge(self, preemptions_per_second: float | None) -> None:
        """Once a second, by what the engine itself measured; None is as good as none."""
        share = share_after(self._share, preempted=bool(preemptions_per_second))
        if share != self._share:
            self._share = share
            self.resize(self._kv_tokens)
