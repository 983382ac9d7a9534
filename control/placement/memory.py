"""From a model's config and file sizes to the bytes a launch needs on each device."""

from dataclasses import dataclass

from control.placement.kv_cache import MIB, KvCost, call_bytes, parts, tokens_held
from control.placement.model import ModelFacts
from engines.vllm import choices
from engines.vllm.choices import CardWanted

GIB = 1024**3
BLOCK_TOKENS = {"gpu": 16, "cpu": 128}
# max_num_batched_tokens where a version names none: the engine's own on the largest cards.
STEP_TOKENS = {"gpu": 8192, "cpu": 2048}
CALLS_DEFAULT = 16
SLOTS_MAX = 256

CPU_OVERHEAD_BYTES = 2 * GIB + 512 * MIB  # three processes, a large tokenizer: 2.4 GiB measured
# Of RAM, beside cards: an API server, and a process for each of them. Files of weights lie in the
# page cache, which gives way.
FRONT_HOST_BYTES = GIB
CARD_HOST_BYTES = 2 * GIB
CONTEXT_BYTES = 768 * MIB  # of the driver and its libraries, on each card
LINK_BYTES = 512 * MIB  # buffers of cards that work on one model together
GRAPH_BYTES = 512 * MIB  # captured steps, and a thirty-second of the weights
GRAPH_BYTES_MAX = 3 * GIB // 2
OWN_RATIO = (0.85, 0.92)  # of a card of its own: the least and the most that an engine gets
OWN_KEPT_BYTES = 3 * GIB // 2


@dataclass(frozen=True)
class Sizes:
    """Bytes on one device: fixed ones, and a KV cache between one full call and all wanted."""

    fixed_bytes: int
    kv_bytes_min: int
    kv_bytes: int
    call_bytes: int
    host_bytes: int = 0  # of RAM beside a card: of its processes, and weights it does not keep

    @property
    def bytes_min(self) -> int:
        return self.fixed_bytes + self.kv_bytes_min


@dataclass(frozen=True)
class Held:
    """What launches held of a device beside their KV cache."""

    bytes: int
    whole: bool  # the engine told its largest step too, so that less than estimated is enough
    host_bytes: int = 0  # of RAM, by all processes of a launch


# The stub engine has no model: one small process.
STUB = Sizes(fixed_bytes=96 * MIB, kv_bytes_min=0, kv_bytes=0, call_bytes=0)


@dataclass(frozen=True)
class Demand:
    """What a version asks for: from its arguments and its `memory`."""

    devices: int = 1
    context_tokens: int | None = None
    step_tokens: int | None = None
    calls: int | None = None
    slots: int | None = None
    kv_tokens: int | None = None
    kv_dtype: str = "auto"
    dtype: str = "auto"
    offload_bytes: int = 0  # of weights, on each device
    eager: bool = False  # no step is captured as a graph

    def step(self, device_kind: str) -> int:
        return self.step_tokens or STEP_TOKENS[device_kind]

    @property
    def calls_at_once(self) -> int:
        return self.slots or self.calls or SLOTS_MAX


def demand_of(arguments: dict, memory: dict | None) -> Demand:
    wanted = memory or {}
    return Demand(
        devices=int(arguments.get("tensor_parallel_size", 1)),
        context_tokens=_whole(arguments.get("max_model_len")),
        step_tokens=_whole(arguments.get("max_num_batched_tokens")),
        calls=_whole(wanted.get("calls")),
        slots=_whole(arguments.get("max_num_seqs")),
        kv_tokens=_whole(wanted.get("kv_tokens")),
        kv_dtype=str(arguments.get("kv_cache_dtype", "auto")),
        dtype=str(arguments.get("dtype", "auto")),
        offload_bytes=int(float(arguments.get("cpu_offload_gb") or 0) * GIB),
        eager=arguments.get("enforce_eager") is True,
    )


def card_wanted(model: ModelFacts, demand: Demand) -> CardWanted:
    latent = not model.kv.split_by_devices
    return choices.card_wanted(model.weights.method, demand.dtype, demand.kv_dtype, latent=latent)


def sizes(
    weights_bytes: int,
    cost: KvCost,
    demand: Demand,
    device_kind: str,
    model: ModelFacts | None = None,
    held: Held | None = None,
) -> Sizes:
    """Per device: weights and KV heads are split over the devices, overhead is not.

    `model` sharpens the estimate; `held` is what launches were seen to hold.
    """
    length = demand.context_tokens or cost.context_tokens
    block, step = BLOCK_TOKENS[device_kind], demand.step(device_kind)
    one = _rounded(-(-call_bytes(cost, length, step, block) // parts(cost, demand.devices)))
    if demand.kv_tokens:
        wanted = least = max(one, _rounded(one * demand.kv_tokens // length))
    elif demand.calls:
        wanted = least = one * demand.calls
    else:
        wanted, least = one * CALLS_DEFAULT, one
    n = demand.devices
    weights = model.weights.on_each(n) if model else -(-weights_bytes // n)
    offloaded = min(weights, demand.offload_bytes) if device_kind == "gpu" else 0
    estimate = weights - offloaded + overhead_bytes(weights_bytes, device_kind, model, demand)
    return Sizes(
        fixed_bytes=corrected(estimate, held),
        kv_bytes_min=least,
        kv_bytes=wanted,
        call_bytes=one,
        host_bytes=host_bytes(n, offloaded, held) if device_kind == "gpu" else 0,
    )


def host_bytes(devices: int, offloaded_bytes: int, held: Held | None = None) -> int:
    """RAM that a launch on so many cards takes. Its weights there are no pages of its own, so what
    was measured of a launch that has some is not all."""
    if held is not None and held.host_bytes and not offloaded_bytes:
        return held.host_bytes
    return FRONT_HOST_BYTES + devices * (CARD_HOST_BYTES + offloaded_bytes)


def corrected(estimate_bytes: int, held: Held | None) -> int:
    """What was measured, where it was; up to a half more than estimated: one may have leaked.

    Seen from outside it only raises: pages and the largest step come as they are needed.
    """
    if held is None:
        return estimate_bytes
    most = min(held.bytes, estimate_bytes * 3 // 2)
    return most if held.whole else max(estimate_bytes, most)


def own_ratio(total_bytes: int) -> float:
    """Share of a card of its own that an engine gets: never its default, which ignores the size."""
    least, most = OWN_RATIO
    return round(min(most, max(least, 1 - OWN_KEPT_BYTES / max(1, total_bytes))), 4)


def room_for_kv(size: Sizes, budget_bytes: int) -> int:
    """All that is left of a budget on each device; negative says how much is missing."""
    return budget_bytes - size.fixed_bytes


def kv_tokens(kv_bytes: int, cost: KvCost, demand: Demand, device_kind: str) -> int:
    """Tokens that so many bytes on each device hold, as the engine's log counts them."""
    length = demand.context_tokens or cost.context_tokens
    whole = kv_bytes * parts(cost, demand.devices)
    return tokens_held(whole, cost, length, demand.step(device_kind), BLOCK_TOKENS[device_kind])


def slots(kv_bytes: int, size: Sizes, demand: Demand) -> int:
    """Calls at once: twice as many as fit at full length, for most calls are shorter."""
    if demand.slots or demand.calls:
        return demand.slots or demand.calls or 1
    if not size.call_bytes:
        return CALLS_DEFAULT
    full_length = max(1, kv_bytes // size.call_bytes)
    return min(SLOTS_MAX, 2 * full_length)


def overhead_bytes(
    weights_bytes: int,
    device_kind: str,
    model: ModelFacts | None = None,
    demand: Demand | None = None,
) -> int:
    """What an engine takes beside weights and KV cache, on each device."""
    if device_kind == "cpu":
        return CPU_OVERHEAD_BYTES
    if model is None or demand is None or not model.shape.hidden:
        return 2 * GIB if weights_bytes <= 32 * GIB else 4 * GIB
    links = LINK_BYTES if demand.devices > 1 else 0
    return CONTEXT_BYTES + links + _graphs(model, demand) + activation_bytes(model, demand)


def activation_bytes(model: ModelFacts, demand: Demand, device_kind: str = "gpu") -> int:
    """Of the largest step: each token through one layer in 16 bit, and each call's logits."""
    shape = model.shape
    wide = 10 * shape.hidden + 3 * shape.intermediate // demand.devices
    logits = demand.calls_at_once * shape.vocabulary * 4 * 2  # in 32 bit, and a copy to sort
    return demand.step(device_kind) * wide * 2 + logits


def _graphs(model: ModelFacts, demand: Demand) -> int:
    if demand.eager:
        return 0
    return min(GRAPH_BYTES_MAX, GRAPH_BYTES + model.weights.on_each(demand.devices) // 32)


def unmeasured(weights_bytes: int | None) -> tuple[int, KvCost]:
    """What to book while nothing is on disk: corrected before the engine starts."""
    weights = weights_bytes or 2 * GIB
    # Between 7 and 34 KiB per GiB of weights and token in the models of today: the upper end.
    per_token = max(4096, weights // 16384)
    return weights, KvCost(
        full_bytes=per_token,
        exact=False,
        detail="not measured yet: booked by a guess until the weights are on disk",
    )


def _rounded(count: int) -> int:
    return -(-count // MIB) * MIB


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and value > 0 else None
