"""The paths that tenants call, and the methods that each has."""

INFERENCE = {
    "/v1/chat/completions": "chat.completions",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
    "/v1/messages": "messages",
    "/v1/messages/count_tokens": "messages.count_tokens",
    "/v1/rerank": "rerank",
    "/v2/rerank": "rerank",
    "/rerank": "rerank",
    "/v1/responses": "responses",
    "/v1/score": "score",
    "/score": "score",
}
MODELS = "/v1/models"
RELAYED = {"/v1/usage": "usage"}  # answered by web
OPEN = frozenset({"/health", "/ready"})


def allowed_methods(path: str) -> tuple[str, ...] | None:
    if path in INFERENCE:
        return ("POST", "OPTIONS")
    if path in OPEN or path == MODELS or path.startswith(MODELS + "/"):
        return ("GET", "HEAD", "OPTIONS")
    if path in RELAYED:
        return ("GET", "OPTIONS")
    return None
