"""Calls of a real engine behind a route named chat-tiny: whole, endless, cut."""

from threading import Event

import httpx
import openai

from engines.kinds import KINDS
from tests.flows.weir import HANG_SECONDS, Weir

TOKENS = 100  # of each answer of a load


def client(weir: Weir) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{weir.gateway_url}/v1", api_key=weir.key, timeout=HANG_SECONDS, max_retries=0
    )


def answer(weir: Weir, tokens: int) -> int:
    """How many tokens came of a stream of so many."""
    stream = client(weir).completions.create(
        model="chat-tiny",
        prompt="abc",
        max_tokens=tokens,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    )
    return [chunk.usage.completion_tokens for chunk in stream if chunk.usage][-1]


def long_answer(weir: Weir) -> str:
    """Answers one after the other, so that one runs whenever it is looked at; cut at last."""
    while True:
        try:
            answer(weir, 480)
        except openai.APIError:
            return "cut"


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
    stream = client(weir).completions.create(
        model="chat-tiny",
        prompt="abc",
        max_tokens=400,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    with stream:
        for _ in range(chunks):
            next(iter(stream))


def running_calls(weir: Weir, number: int) -> bool:
    [(port,)] = weir.rows("SELECT port FROM control_replica WHERE id = %s", number)
    page = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
    return KINDS["vllm"].parse_metrics(page).generation_tokens > 200
