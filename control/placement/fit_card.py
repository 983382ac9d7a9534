"""Whether a model fits each kind of device, with how many tokens, and what would make it fit."""

from collections.abc import Iterable
from dataclasses import dataclass

from control.placement import memory
from control.placement.cards import DeviceKind
from control.placement.memory import GIB, Demand, Held, Sizes
from control.placement.model import ModelFacts
from control.placement.remedies import (
    EVALUATE,
    Remedy,
    budget_bytes,
    kv_given,
    remedies,
    sizes_on,
    why_no_format,
    why_not_over,
)

# Where 13 and 70 billion end: models called so have a little more.
SMALL_PARAMETERS, LARGE_PARAMETERS = 13_500_000_000, 73_000_000_000


@dataclass(frozen=True)
class Fit:
    device: DeviceKind
    fits: bool
    devices: int  # that one replica takes
    weights_bytes: int  # on each of them
    overhead_bytes: int
    kv_bytes: int  # that is left; negative says how much is missing
    kv_tokens: int
    context_tokens: int
    calls: int  # of full length at once
    why: str
    remedies: tuple[Remedy, ...] = ()


def fit_card(
    model: ModelFacts,
    demand: Demand,
    kinds: Iterable[DeviceKind],
    held: dict[str, Held] | None = None,
) -> tuple[Fit, ...]:
    """`held`: kind of device → what launches of this version held beside their cache."""
    return tuple(_fit(model, demand, kind, (held or {}).get(kind.kind)) for kind in kinds)


def guidance(model: ModelFacts) -> str:
    """What is usual for a model of this size."""
    count = model.weights.parameters
    size = f"{count / 1e9:.1f} billion parameters"
    if count <= SMALL_PARAMETERS:
        usual = "16 bit (FP16, BF16) or INT8"
    elif count <= LARGE_PARAMETERS:
        usual = f"INT8, or AWQ; {EVALUATE}"
    else:
        usual = f"AWQ or GPTQ in 4 bit; {EVALUATE}"
    return f"{size}: {usual}"


def _fit(model: ModelFacts, demand: Demand, device: DeviceKind, held: Held | None) -> Fit:
    size = sizes_on(model, demand, device, held)
    left = memory.room_for_kv(size, budget_bytes(device))
    never = why_not_over(demand.devices, device) or why_no_format(model, demand, device)
    fits = not never and left >= size.kv_bytes_min
    kv_bytes = kv_given(left, size, demand) if fits else left
    length = demand.context_tokens or model.kv.context_tokens
    loaded = min(size.fixed_bytes, model.weights.on_each(demand.devices))
    return Fit(
        device=device,
        fits=fits,
        devices=demand.devices,
        weights_bytes=loaded,
        overhead_bytes=size.fixed_bytes - loaded,
        kv_bytes=kv_bytes,
        kv_tokens=memory.kv_tokens(kv_bytes, model.kv, demand, device.kind) if fits else 0,
        context_tokens=length,
        calls=kv_bytes // size.call_bytes if fits and size.call_bytes else 0,
        why=never or _why(left, size, demand),
        remedies=() if fits else remedies(model, demand, device, size.kv_bytes_min - left),
    )


def _why(left: int, size: Sizes, demand: Demand) -> str:
    if left >= size.kv_bytes_min:
        return f"{_gib(left)} are left for the KV cache; {_gib(size.kv_bytes_min)} are needed"
    if left < 0:
        return f"weights and overhead are {_gib(-left)} more than it gives an engine"
    wanted = f"{demand.calls} calls" if demand.calls else "one call of full length"
    if demand.kv_tokens:
        wanted = f"{demand.kv_tokens:,} tokens"
    return f"{_gib(left)} are left for the KV cache; {wanted} take {_gib(size.kv_bytes_min)}"


def _gib(count: int) -> str:
    return f"{count / GIB:.1f} GiB"
