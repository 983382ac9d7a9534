"""Calls of a real engine behind a route named chat-tiny: whole, left, cut."""

from collections.abc import Callable
from threading import Event

import openai
import pytest
from openai.types import Completion

from tests.flows.weir import HANG_SECONDS, Weir

CONTEXT = 2048
LONG = 2000  # tokens: seconds of an engine on an idle machine, more on a busy one
TOKENS = 100  # of each answer of a load


def client(weir: Weir) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{weir.gateway_url}/v1", api_key=weir.key, timeout=HANG_SECONDS, max_retries=0
    )


def _stream(weir: Weir, tokens: int) -> openai.Stream[Completion]:
    return client(weir).completions.create(
        model="chat-tiny",
        prompt="abc",
        max_tokens=tokens,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )


def answer(weir: Weir, tokens: int) -> int:
    """How many tokens came of a stream of so many."""
    return [chunk.usage.completion_tokens for chunk in _stream(weir, tokens) if chunk.usage][-1]


def cut_by(happening: Callable[[], object], weir: Weir) -> None:
    """An answer of seconds that breaks off, because that happened between two of its tokens."""
    chunks = iter(_stream(weir, LONG))
    next(chunks)
    happening()
    with pytest.raises(openai.APIError):
        list(chunks)


def load(weir: Weir, enough: Event) -> list[int]:
    """Answers until there is nobody to give one; an answer that is cut fails the test."""
    whole = []
    while not enough.is_set():
        try:
            whole.append(answer(weir, TOKENS))
        except openai.APIStatusError:
            return whole  # refused before anything of it came
    raise AssertionError("there was always somebody to give one")


def cut(weir: Weir, chunks: int) -> None:
    """A stream that its tenant leaves after so many chunks."""
    with _stream(weir, LONG) as stream:
        for _ in range(chunks):
            next(stream)
