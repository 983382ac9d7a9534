"""What would make a model fit a kind of device: one change, or two where none does alone."""

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
# The one that computes in 8 bit first; the other is for cards that only store in it.
FP8 = ("fp8_per_channel", "fp8_per_tensor")
INT8_OF_EXPERTS = "int8_per_channel_weight_only"
EVALUATE = "4-bit wants an evaluation on mathematics and code first"


@dataclass(frozen=True)
class Remedy:
    """One thing to change, and what then fits on each device."""

    what: str
    arguments: tuple[tuple[str, object], ...]  # to set; none: another artifact
    kv_tokens: int
    calls: int


@dataclass(frozen=True)
class _Try:
    """A model with one thing or two changed."""

    what: str
    model: ModelFacts
    demand: Demand
    arguments: tuple[tuple[str, object], ...] = ()


def remedies(
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


def why_not_over(devices: int, device: DeviceKind) -> str:
    """Why one model does not go over so many of them."""
    if devices == 1:
        return ""
    if device.kind == "cpu" or device.is_slice:
        what = "CPU devices" if device.kind == "cpu" else "MIG slices"
        return f"one model over several {what} is not offered"
    if 0 < device.on_one_host < devices:
        return f"no host has {devices} of them: the largest has {device.on_one_host}"
    return ""


def why_no_format(model: ModelFacts, demand: Demand, device: DeviceKind) -> str:
    """What of its formats the card cannot run."""
    if device.kind == "cpu":
        return ""
    return memory.card_wanted(model, demand).why_not(device.compute_capability)


def budget_bytes(device: DeviceKind) -> int:
    """Of a device that the model has for itself."""
    if device.kind == "cpu":
        return int(device.memory_bytes * CPU_RATIO)
    return int(device.memory_bytes * memory.own_ratio(device.memory_bytes))


def sizes_on(
    model: ModelFacts, demand: Demand, device: DeviceKind, held: Held | None = None
) -> Sizes:
    total = model.weights.total_bytes
    return memory.sizes(total, model.kv, demand, device.kind, model, held)


def kv_given(left: int, size: Sizes, demand: Demand) -> int:
    """What was promised, or all that is left; a host's RAM gives no more than is wanted."""
    promised = demand.calls or demand.kv_tokens
    return min(left, size.kv_bytes) if promised else left


def in_eight_bit(cost: KvCost) -> KvCost:
    """The same cache with half the bytes a number."""
    return replace(
        cost,
        full_bytes=cost.full_bytes // 2,
        window_bytes=cost.window_bytes // 2,
        group_bytes=cost.group_bytes // 2,
    )


def _working(tries: Iterable[_Try], device: DeviceKind) -> tuple[Remedy, ...]:
    found, seen = [], set()
    for one in tries:
        size = sizes_on(one.model, one.demand, device)
        left = memory.room_for_kv(size, budget_bytes(device))
        kind = one.what.split(" ")[0]
        if left < size.kv_bytes_min or kind in seen or not size.call_bytes:
            continue
        if why_no_format(one.model, one.demand, device):
            continue
        if kind == "tensor":
            seen.add(kind)  # the fewest cards that do
        kv_bytes = kv_given(left, size, one.demand)
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
    """Over more cards of one host; each takes whole heads."""
    for devices in PARALLEL:
        if devices <= demand.devices or model.shape.heads % devices:
            continue
        if why_not_over(devices, device):
            continue
        what = f"tensor parallel over {devices} of them"
        arguments = (("tensor_parallel_size", devices),)
        if also:
            what, arguments = f"{also.what}, and {what}", (*also.arguments, *arguments)
        yield _Try(what, model, replace(demand, devices=devices), arguments)


def _artifacts(model: ModelFacts, demand: Demand, device: DeviceKind) -> Iterable[_Try]:
    """Fewer bits a weight: while it loads, or of another artifact."""
    if device.kind == "gpu":
        yield from _in_fp8(model, demand, device)
    if model.weights.method:
        return
    if device.kind == "gpu":
        yield _in_int8(model, demand)
    what = f"an AWQ or GPTQ artifact in 4 bit ({EVALUATE})"
    yield _Try(what, _stored_in(model, "awq", FOUR_BIT.bits_stored), demand)


def _in_fp8(model: ModelFacts, demand: Demand, device: DeviceKind) -> Iterable[_Try]:
    """By the name of it that the card runs; what is quantised by the other is of the same size."""
    plain = model.weights
    if plain.method and plain.method != FP8[0]:
        return
    for name in FP8:
        if name == plain.method:
            continue
        made = replace(plain, method=name) if plain.method else weights.online(plain, name)
        smaller = replace(model, weights=made)
        if why_no_format(smaller, demand, device):
            continue
        only = "" if name == FP8[0] else " (only its weights: this card computes in 16 bit)"
        what = f"FP8, quantised while it loads{only}"
        yield _Try(what, smaller, demand, (("quantization", name),))
        return


def _in_int8(model: ModelFacts, demand: Demand) -> _Try:
    """While it loads the engine reaches experts alone."""
    if not model.weights.expert_bytes:
        what = "an INT8 artifact (compressed-tensors)"
        return _Try(what, _stored_in(model, "compressed-tensors", 8.0), demand)
    smaller = replace(model, weights=weights.online(model.weights, INT8_OF_EXPERTS))
    what = "INT8, only weights of experts, quantised while it loads"
    return _Try(what, smaller, demand, (("quantization", INT8_OF_EXPERTS),))


def _stored_in(model: ModelFacts, method: str, bits: float) -> ModelFacts:
    plain = model.weights
    smaller = {
        "linear_bytes": int(plain.linear_bytes * bits / plain.bits),
        "expert_bytes": int(plain.expert_bytes * bits / plain.bits),
    }
    return replace(model, weights=replace(plain, **smaller, method=method, bits=bits, exact=False))


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
    size = sizes_on(model, shorter, device)
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
