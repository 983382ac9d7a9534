"""Embeddings, rerank and score: vectors made of words, so that like texts are near each other."""

import base64
import math
import struct
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from engines.stub.calls import BadCall, count_tokens, read_json
from engines.stub.chunks import error_body

DIMENSIONS = 64
PATHS = {
    "/v1/embeddings": "embeddings",
    "/v1/rerank": "rerank",
    "/v2/rerank": "rerank",
    "/rerank": "rerank",
    "/v1/score": "score",
    "/score": "score",
}
_WANTED = {
    "embeddings": ("input",),
    "rerank": ("query", "documents"),
    "score": ("text_1", "text_2"),
}


@dataclass(frozen=True)
class Pooled:
    """A whole answer, and the tokens that were read for it."""

    body: dict[str, Any]
    prompt_tokens: int


def pooled(path: str, body: bytes, served_name: str, context_tokens: int, created: int) -> Pooled:
    given, kind = read_json(body), PATHS[path]
    for name in _WANTED[kind]:
        if name not in given:
            said = f"1 validation error:\n  {{'type': 'missing', 'loc': 'body.{name}'}}"
            raise BadCall(400, error_body(400, said, "Bad Request", f"body.{name}"))
    if (model := given.get("model", served_name)) != served_name:
        said = f"The model `{model}` does not exist. Valid aliases: {served_name}."
        raise BadCall(404, error_body(404, said, "NotFoundError", "model"))
    data, texts = _MADE[kind](given)
    tokens = [count_tokens(text) for text in texts]
    if max(tokens) > context_tokens:
        said = f"This model's maximum context length is {context_tokens} tokens. However, your "
        said += f"prompt contains {max(tokens)} input tokens. (parameter=input_tokens)"
        raise BadCall(400, error_body(400, said, "BadRequestError", "input_tokens"))
    usage = {
        "prompt_tokens": sum(tokens),
        "total_tokens": sum(tokens),
        "completion_tokens": 0,
        "prompt_tokens_details": None,
    }
    head = {"created": created, "model": served_name}
    if kind != "rerank":
        head["object"] = "list"
    return Pooled(head | data | {"usage": usage}, sum(tokens))


def _embeddings(given: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    texts = given["input"]
    if isinstance(texts, str) or (texts and isinstance(texts[0], int)):
        texts = [texts]
    size = given.get("dimensions") or DIMENSIONS
    packed = given.get("encoding_format") == "base64"
    data = []
    for index, text in enumerate(texts):
        vector = embed(text, size)
        shown = base64.b64encode(struct.pack(f"<{size}f", *vector)).decode() if packed else vector
        data.append({"index": index, "object": "embedding", "embedding": shown})
    return {"id": "embd-stub", "data": data}, texts


def _rerank(given: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    documents = [one if isinstance(one, str) else one["text"] for one in given["documents"]]
    results = [
        {
            "index": index,
            "document": {"text": text, "multi_modal": None},
            "relevance_score": likeness(given["query"], text),
        }
        for index, text in enumerate(documents)
    ]
    results.sort(key=lambda result: -result["relevance_score"])
    count = given.get("top_n") or len(results)
    read = [f"{given['query']} {text}" for text in documents]
    return {"id": "rerank-stub", "results": results[:count]}, read


def _score(given: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    ones, others = (
        [text] if isinstance(text, str) else text for text in (given["text_1"], given["text_2"])
    )
    if len(ones) == 1:
        ones = ones * len(others)
    if len(ones) != len(others):
        said = "Input lengths must be either 1:1, 1:N or N:N"
        raise BadCall(400, error_body(400, said, "BadRequestError"))
    data = [
        {"index": index, "object": "score", "score": likeness(one, other)}
        for index, (one, other) in enumerate(zip(ones, others, strict=True))
    ]
    read = [f"{one} {other}" for one, other in zip(ones, others, strict=True)]
    return {"id": "score-stub", "data": data}, read


_MADE = {"embeddings": _embeddings, "rerank": _rerank, "score": _score}


def embed(text: Any, size: int) -> list[float]:
    """Of length 1; each word has a direction of its own."""
    words = [str(word) for word in (text.lower().split() if isinstance(text, str) else text)]
    sums = [0.0] * size
    for word in words or [""]:
        for at, sign in _direction(word, size):
            sums[at] += sign
    length = math.sqrt(sum(value * value for value in sums)) or 1.0
    return [value / length for value in sums]


def _direction(word: str, size: int) -> list[tuple[int, float]]:
    digest = blake2b(word.encode(), digest_size=16).digest()
    return [(digest[at] % size, 1.0 if digest[at + 8] & 1 else -1.0) for at in range(8)]


def likeness(one: str, other: str) -> float:
    """Between 0 and 1."""
    pairs = zip(embed(one, DIMENSIONS), embed(other, DIMENSIONS), strict=True)
    return min(max((1 + sum(a * b for a, b in pairs)) / 2, 0.0), 1.0)
