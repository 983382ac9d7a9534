"""Whether a model fits each kind of device, with how many tokens, and what would make it fit."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from control.placement import memory, weights
from control.placement.cards import DeviceKind
from control.placement.kv_cache import KvCost
from control.placement.memory import GIB, Demand, Held, Sizes
from control.placement.model import ModelFacts
from control.placement.room import RAM_RATIO

PARALLEL = (2, 4, 8)
CONTEXT_TOKENS_LEAST = 1024  # a shorter one is no cure
OFFLOAD_RATIO_MAX = 0.5  # of the weights: with more in RAM each step waits for the bus
CPU_RATIO = 0.85  # of a host's RAM: the rest is its own
FOUR_BIT = weights.Quantisation("awq", 4, 128)
EIGHT_BIT = ("fp8_per_channel", "int8_per_channel_weight_only")
EVALUATE = "4-bit wants an evaluation on mathematics and code first"
# Where 13 and 70 billion end: models called so have a little more.
SMALL_PARAMETERS, LARGE_PARAMETERS = 13_500_000_000, 73_000_000_000


@dataclass(frozen=True)
class Remedy:
    """One thing to change, and what then fits on each device."""

    what: str
    arguments: tuple[tuple[str, object], ...]  # to set; none: another artifact
    kv_tokens: int
    calls: int


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


@dataclass(frozen=True)
class _Try:
    """A model with one thing or two changed."""

    what: str
    model: ModelFacts
    demand: Demand
    arguments: tuple[tuple[str, object], ...] = ()


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
    size = _sizes(model, demand, device, held)
    left = memory.room_for_kv(size, budget_bytes(device))
    fits = demand.devices == 1 or _runs_over_several(device)
    fits = fits and left >= size.kv_bytes_min
    kv_bytes = _kv_given(left, size, demand) if fits else left
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
        why=_why(fits, left, size, demand, device),
        remedies=() if fits else _remedies(model, demand, device, size.kv_bytes_min - left),
    )


def _runs_over_several(device: DeviceKind) -> bool:
    return device.kind == "gpu" and not device.is_slice


def budget_bytes(device: DeviceKind) -> int:
    """Of a device that the model has for itself."""
    if device.kind == "cpu":
        return int(device.memory_bytes * CPU_RATIO)
    return int(device.memory_bytes * memory.own_ratio(device.memory_bytes))


def _sizes(
    model: ModelFacts, demand: Demand, device: DeviceKind, held: Held | None = None
) -> Sizes:
    total = model.weights.total_bytes
    return memory.sizes(total, model.kv, demand, device.kind, model, held)


def _kv_given(left: int, size: Sizes, demand: Demand) -> int:
    """What was promised, or all that is left; a host's RAM gives no more than is wanted."""
    promised = demand.calls or demand.kv_tokens
    return min(left, size.kv_bytes) if promised else left


def _why(fits: bool, left: int, size: Sizes, demand: Demand, device: DeviceKind) -> str:
    if fits:
        return f"{_gib(left)} are left for the KV cache; {_gib(size.kv_bytes_min)} are needed"
    if demand.devices > 1 and not _runs_over_several(device):
        what = "CPU devices" if device.kind == "cpu" else "MIG slices"
        return f"one model over several {what} is not offered"
    if left < 0:
        return f"weights and overhead are {_gib(-left)} more than it gives an engine"
    wanted = f"{demand.calls} calls" if demand.calls else "one call of full length"
    if demand.kv_tokens:
        wanted = f"{demand.kv_tokens:,} tokens"
    return f"{_gib(left)} are left for the KV cache; {wanted} take {_gib(size.kv_bytes_min)}"


def _remedies(
    model: ModelFacts, demand: Demand, device: DeviceKind, missing: int
) -> tuple[Remedy, ...]:
    """Each alone; two together only where none does."""
    alone = _working(_changes(model, demand, device, missing), device)
    if alone:
        return alone
    together = [
        again
        for smaller in _artifacts(model, demand, device)
        for again in _wider(smaller.model, smaller.demand, device, smaller)
    ]
    return _working(together, device)[:3]


def _working(tries: Iterable[_Try], device: DeviceKind) -> tuple[Remedy, ...]:
    found, seen = [], set()
    for one in tries:
        size = _sizes(one.model, one.demand, device)
        left = memory.room_for_kv(size, budget_bytes(device))
        kind = one.what.split(" ")[0]
        if left < size.kv_bytes_min or kind in seen or not size.call_bytes:
            continue
        if kind == "tensor":
            seen.add(kind)  # the fewest cards that do
        kv_bytes = _kv_given(left, size, one.demand)
        tokens = memory.kv_tokens(kv_bytes, one.model.kv, one.demand, device.kind)
        found.append(Remedy(one.what, one.arguments, tokens, kv_bytes // size.call_bytes))
    return tuple(found)


def _changes(model: ModelFacts, demand: Demand, device: DeviceKind, missing: int) -> Iterable[_Try]:
    yield from _shorter(model, demand, device)
    yield from _smaller_cache(model, demand, device)
    yield from _wider(model, demand, device)
    yield from _artifacts(model, demand, device)
    yield from _offloaded(model, demand, device, missing)


def _wider(
    model: ModelFacts, demand: Demand, device: DeviceKind, also: _Try | None = None
) -> Iterable[_Try]:
    """Over more cards; each takes whole heads."""
    if not _runs_over_several(device):
        return
    for devices in PARALLEL:
        if devices <= demand.devices or model.shape.heads % devices:
            continue
        what = f"tensor parallel over {devices} of them"
        arguments = (("tensor_parallel_size", devices),)
        if also:
            what, arguments = f"{also.what}, and {what}", (*also.arguments, *arguments)
        yield _Try(what, model, replace(demand, devices=devices), arguments)


def _artifacts(model: ModelFacts, demand: Demand, device: DeviceKind) -> Iterable[_Try]:
    """Fewer bits a weight: while it loads, or of another artifact."""
    if model.weights.method:
        return
    if device.kind == "gpu":
        for name in EIGHT_BIT:
            words = "FP8" if name.startswith("fp8") else "INT8, weights only"
            smaller = replace(model, weights=weights.online(model.weights, name))
            what = f"{words}, quantised while it loads"
            yield _Try(what, smaller, demand, (("quantization", name),))
    four = int(model.weights.linear_bytes * FOUR_BIT.bits_stored / model.weights.bits)
    smaller = replace(model.weights, linear_bytes=four, method="awq", bits=4.0, exact=False)
    what = f"an AWQ or GPTQ artifact in 4 bit ({EVALUATE})"
    yield _Try(what, replace(model, weights=smaller), demand)


def _smaller_cache(model: ModelFacts, demand: Demand, device: DeviceKind) -> Iterable[_Try]:
    if device.kind == "gpu" and demand.kv_dtype == "auto":
        halved = replace(model, kv=in_eight_bit(model.kv))
        arguments = (("kv_cache_dtype", "fp8"),)
        yield _Try("KV cache in FP8", halved, replace(demand, kv_dtype="fp8"), arguments)


def _shorter(model: ModelFacts, demand: Demand, device: DeviceKind) -> Iterable[_Try]:
    """The longest context of whole thousands that the rest holds."""
    length = demand.context_tokens or model.kv.context_tokens
    if demand.kv_tokens:
        return
    least, most = 1, length // CONTEXT_TOKENS_LEAST
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (
            (middle, most) if _holds(model, demand, device, middle) else (least, middle - 1)
        )
    short = least * CONTEXT_TOKENS_LEAST
    if short < length:
        what = f"a context of {short:,} tokens"
        arguments = (("max_model_len", short),)
        yield _Try(what, model, replace(demand, context_tokens=short), arguments)


def _holds(model: ModelFacts, demand: Demand, device: DeviceKind, thousands: int) -> bool:
    shorter = replace(demand, context_tokens=thousands * CONTEXT_TOKENS_LEAST)
    size = _sizes(model, shorter, device)
    return memory.room_for_kv(size, budget_bytes(device)) >= size.kv_bytes_min


def _offloaded(
    model: ModelFacts, demand: Demand, device: DeviceKind, missing: int
) -> Iterable[_Try]:
    if device.kind != "gpu" or missing <= 0:
        return
    more = -(-missing // GIB)
    if more * GIB > OFFLOAD_RATIO_MAX * model.weights.on_each(demand.devices):
        return
    gib = demand.offload_bytes // GIB + more
    in_ram = memory.host_bytes(demand.devices, gib * GIB)
    if device.host_bytes and in_ram > device.host_bytes * RAM_RATIO:
        return
    what = f"offload of {gib} GiB of weights a card to host RAM (slow: each step reads them)"
    yield _Try(what, model, replace(demand, offload_bytes=gib * GIB), (("cpu_offload_gb", gib),))


def in_eight_bit(cost: KvCost) -> KvCost:
    """The same cache with half the bytes a number."""
    return replace(
        cost,
        full_bytes=cost.full_bytes // 2,
        window_bytes=cost.window_bytes // 2,
        group_bytes=cost.group_bytes // 2,
    )


def _gib(count: int) -> str:
    return f"{count / GIB:.1f} GiB"
