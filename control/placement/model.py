"""A model as placement knows it: its weights, its KV cache, and how wide its layers are."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from control.placement import weights as rules
from control.placement.kv_cache import KvCost, kv_cost
from control.placement.weights import Tensor, Weights

# What a figure rests on where no file is at hand: parameters counted from config.json.
BY_CONFIG = "counted from config.json: the folder holds no weights"


@dataclass(frozen=True)
class Shape:
    """How wide a step is; zero is not known."""

    hidden: int = 0
    intermediate: int = 0
    vocabulary: int = 0
    layers: int = 0
    heads: int = 0

    @staticmethod
    def of(config: dict) -> "Shape":
        text = config.get("text_config") or config
        hidden = _whole(text, "hidden_size", "n_embd", "d_model")
        dense = _whole(text, "intermediate_size", "n_inner", "ffn_dim") or 4 * hidden
        at_once = _whole(text, "num_experts_per_tok") * _whole(text, "moe_intermediate_size")
        return Shape(
            hidden=hidden,
            intermediate=max(dense, at_once),
            vocabulary=_whole(text, "vocab_size"),
            layers=_whole(text, "num_hidden_layers", "n_layer"),
            heads=_whole(text, "num_attention_heads", "n_head"),
        )


@dataclass(frozen=True)
class ModelFacts:
    """All that an estimate needs; written once for a version, where its files first arrived."""

    kind: str  # model_type
    weights: Weights
    kv: KvCost
    shape: Shape

    def to_dict(self) -> dict:
        return asdict(self)

    @staticmethod
    def from_dict(stored: Mapping) -> "ModelFacts":
        return ModelFacts(
            kind=stored["kind"],
            weights=Weights.from_dict(stored["weights"]),
            kv=KvCost.from_dict(stored["kv"]),
            shape=Shape(**stored["shape"]),
        )


def read(config: dict, tensors: Iterable[Tensor] | None, arguments: Mapping) -> ModelFacts:
    """From config.json and, where they are at hand, the headers of the files."""
    dtype = str(arguments.get("dtype", "auto"))
    quantization = str(arguments.get("quantization", ""))
    if tensors is None:
        made = rules.online(by_config(config), quantization)
    else:
        drafts = arguments.get("speculative_method") == "mtp"
        made = rules.of_tensors(tensors, config, dtype, quantization, drafts=drafts)
    text = config.get("text_config") or config
    return ModelFacts(
        kind=str(text.get("model_type") or config.get("model_type") or ""),
        weights=made,
        kv=kv_cost(config, str(arguments.get("kv_cache_dtype", "auto")), dtype),
        shape=Shape.of(config),
    )


def by_config(config: dict) -> Weights:
    """Parameters of a decoder counted from its config: within some percent for known layouts."""
    text = config.get("text_config") or config
    shape = Shape.of(config)
    head = _whole(text, "head_dim") or (shape.hidden // shape.heads if shape.heads else 0)
    kept = _whole(text, "num_key_value_heads") or shape.heads
    attention = 2 * shape.hidden * head * (shape.heads + kept)
    experts = _whole(text, "num_experts", "num_local_experts", "n_routed_experts")
    linear = shape.layers * (attention + _of_mlp(text, shape, experts))
    chosen = shape.layers * experts * _of_expert(text, shape)
    tied = bool(text.get("tie_word_embeddings"))
    embedding = shape.hidden * shape.vocabulary * (1 if tied else 2)
    made = rules.of_parameters(linear, embedding, rules.quantisation(config), chosen)
    return replace(made, detail=BY_CONFIG)


def _of_mlp(text: dict, shape: Shape, experts: int) -> int:
    if experts:
        return _of_expert(text, shape) * (experts + _whole(text, "n_shared_experts"))
    width = _whole(text, "intermediate_size", "n_inner", "ffn_dim") or 4 * shape.hidden
    return 3 * shape.hidden * width


def _of_expert(text: dict, shape: Shape) -> int:
    return 3 * shape.hidden * _whole(text, "moe_intermediate_size", "intermediate_size")


def _whole(text: Mapping, *names: str) -> int:
    found = (text.get(name) for name in names)
    return next((int(value) for value in found if isinstance(value, int) and value > 0), 0)
