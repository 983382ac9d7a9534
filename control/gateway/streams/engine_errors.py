"""What an engine's own refusal says, and what it means to a tenant: values in, values out."""

from control.gateway import errors
from control.gateway.errors import Refusal
from control.gateway.streams.chunks import Chunk

# How an engine says that its core is gone, or that it takes no work any more.
_DEATHS = ("EngineCore encountered", "EngineDead", "cannot schedule new futures after shutdown")
_CHARACTERS_MAX = 1000


def refusal_in(chunk: Chunk) -> Refusal | None:
    """Where an event, or an answer with a good status, holds an error."""
    code = code_of(chunk)
    if chunk.error is None:
        return None
    status = code if type(code) is int and 400 <= code <= 599 else 500
    return refusal_of(status, message_of(chunk), code)


def message_of(chunk: Chunk) -> str:
    error = chunk.error
    text = str(error.get("message") or "") if isinstance(error, dict) else str(error or "")
    return text[:_CHARACTERS_MAX]


def code_of(chunk: Chunk) -> object:
    return chunk.error.get("code") if isinstance(chunk.error, dict) else None


def refusal_of(status: int, message: str, code: object = None) -> Refusal:
    """What it means to a tenant."""
    if status in (400, 413, 422):
        if code == "context_length_exceeded" or "maximum context length" in message:
            return errors.ContextTooLong(message)  # in which member, the call knows
        return errors.InvalidValue(message or "The engine refused the request.")
    if status in (408, 504):
        return errors.UpstreamTimeout("The engine did not answer in time.")
    if any(sign in message for sign in _DEATHS):
        return errors.EngineDied("The engine failed to answer this request.")
    if status in (429, 503):
        text = "The engine is overloaded. Please try again shortly."
        return errors.EngineBusy(text, wait_seconds=2)
    return errors.UpstreamFailed("The engine failed to answer this request.")
