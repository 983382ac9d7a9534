"""How launches differ from what their version asks for, since one of them failed. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from control.placement.memory import Sizes

ARGUMENTS = ("max_model_len", "max_num_seqs", "max_num_batched_tokens")


@dataclass(frozen=True)
class Changes:
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    memory_percent: int = 0  # booked beyond what weights and overhead are estimated to take
    avoid: tuple[int, ...] = ()  # devices
    host_engines_max: int | None = None  # of the node where it failed, whosever they are

    def arguments(self) -> dict[str, int]:
        values = {name: getattr(self, name) for name in ARGUMENTS}
        return {name: value for name, value in values.items() if value is not None}

    def enlarged(self, sizes: Sizes) -> Sizes:
        """More beside the KV cache, never a smaller one."""
        fixed = sizes.fixed_bytes * (100 + self.memory_percent) // 100
        return replace(sizes, fixed_bytes=fixed)

    def stored(self) -> dict:
        plain = asdict(Changes())
        return {name: it for name, it in asdict(self).items() if it != plain[name]}

    def __str__(self) -> str:
        told = [f"{name} {value:,}" for name, value in self.arguments().items()]
        if self.memory_percent:
            told.append(f"{self.memory_percent} % more memory beside the KV cache")
        if self.avoid:
            told.append("another device")
        if self.host_engines_max is not None:
            told.append(f"at most {self.host_engines_max} engines on that host")
        return ", ".join(told)


def read(stored: Mapping) -> Changes:
    """What a newer release wrote beside is passed over."""
    known = {name: it for name, it in stored.items() if name in Changes.__dataclass_fields__}
    return Changes(**known | {"avoid": tuple(known.get("avoid", ()))})


def merged(rows: Iterable[Changes]) -> Changes:
    """All of them hold: the smallest number, the most memory, every device that is avoided."""
    found = Changes()
    for row in rows:
        least = {name: _least(getattr(found, name), getattr(row, name)) for name in ARGUMENTS}
        found = Changes(
            **least,
            memory_percent=max(found.memory_percent, row.memory_percent),
            avoid=tuple(sorted({*found.avoid, *row.avoid})),
            host_engines_max=_least(found.host_engines_max, row.host_engines_max),
        )
    return found


def _least(one: int | None, other: int | None) -> int | None:
    return min((it for it in (one, other) if it is not None), default=None)
