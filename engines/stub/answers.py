"""Answers on the wire: streamed, whole, broken on purpose, or byte for byte."""

import asyncio
import os
import re
import time

from engines.stub.calls import Call, Plan, answer_id, first_of
from engines.stub.chunks import DONE, Answer, encode, engine_died, error_body
from engines.stub.counters import Counters
from engines.stub.http import Response
from engines.stub.script import Raw, Script

EVENT_STREAM = "text/event-stream; charset=utf-8"
_EVENT = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r)|.+", re.DOTALL)


class Broken(Exception):
    """The script said so; what the caller gets of it has been sent."""


def begin(call: Call, script: Script, number: str, model: str) -> Answer:
    return Answer(
        call_id=f"{'chatcmpl' if call.chat else 'cmpl'}-{number}",
        created=int(time.time()),
        arrived_seconds=time.monotonic(),
        model=model,
        chat=call.chat,
        prompt_tokens=first_of(script.prompt_tokens, call.prompt_tokens),
        cached_tokens=script.cached_tokens,
        reasoning_tokens=script.reasoning_tokens,
        include_usage=call.include_usage and script.usage != "none",
        running_usage=call.running_usage and script.usage == "running",
        prompt_ids=call.prompt_ids,
    )


async def stream(
    answer: Answer, call: Call, made: Plan, counters: Counters, response: Response
) -> None:
    await asyncio.sleep(made.ttft_seconds)
    if call.chat:
        for index in range(call.choices):
            response.write(answer.role(index))
    async for position in _steps(answer, call, made, counters, response):
        finish = made.finish if position == len(made.texts) - 1 else None
        thought = position < answer.reasoning_tokens
        for index in range(call.choices):
            _count(answer, counters)
            token = answer.token(
                index,
                made.texts[position],
                finish,
                thought=thought,
                id_=answer_id(call.begun + position),
                first=position == 0,
            )
            response.write(token)
    if answer.include_usage:
        response.write(answer.usage_only())
    response.write(DONE)
    response.end()


async def whole(
    answer: Answer, call: Call, made: Plan, counters: Counters, response: Response
) -> None:
    await asyncio.sleep(made.ttft_seconds)
    async for _position in _steps(answer, call, made, counters, response):
        for _index in range(call.choices):
            _count(answer, counters)
    thought = "".join(made.texts[: answer.reasoning_tokens])
    text = "".join(made.texts[answer.reasoning_tokens :])
    body = answer.whole(
        [text] * call.choices, [thought] * call.choices, [made.finish] * call.choices
    )
    response.send(200, encode(body))


async def refuse(script: Script, response: Response) -> None:
    body = error_body(script.status or 500, script.error, "InternalServerError")
    more = {"retry_after": script.retry_after} if script.retry_after else {}
    response.send(script.status or 500, encode(body), **more)


async def play(raw: Raw, response: Response) -> None:
    """The bytes as they are, in pieces, then the end that was asked for."""
    response.start(raw.content_type, raw.framing)
    for piece in pieces(raw):
        response.write(piece)
        await asyncio.sleep(raw.pause_seconds)
    match raw.end:
        case "rst":
            await response.reset()
        case "hold":
            await asyncio.Event().wait()
        case _:
            response.end()


def pieces(raw: Raw) -> list[bytes]:
    if raw.split == "frame":
        return _EVENT.findall(raw.data)
    size = int(raw.split)
    return [raw.data[at : at + size] for at in range(0, len(raw.data), size)]


async def _steps(answer: Answer, call: Call, made: Plan, counters: Counters, response: Response):
    """Positions of the answer in the engine's pace, until the script breaks it."""
    script, last = made.script, time.monotonic()
    counters.ttft.observe(last - answer.arrived_seconds)
    for position in range(len(made.texts)):
        if script.fail_after_tokens is not None and answer.made >= script.fail_after_tokens:
            await _break(script, call, response)
        if script.gate and answer.made >= script.hold_after_tokens:
            await script.gate.wait()
        if position:
            await asyncio.sleep(made.token_seconds)
            counters.itl.observe(time.monotonic() - last)
        last = time.monotonic()
        yield position


def _count(answer: Answer, counters: Counters) -> None:
    answer.made += 1
    counters.generation_tokens += 1
    counters.held_tokens += 1


async def _break(script: Script, call: Call, response: Response) -> None:
    if script.hang:
        await asyncio.Event().wait()
    match script.fail_with:
        case "error":
            tell_engine_died(call, response)
        case "fin":
            response.cut()
        case "rst":
            await response.reset()
        case "exit":
            os._exit(1)
    raise Broken


def tell_engine_died(call: Call, response: Response) -> None:
    if call.stream:
        response.write(engine_died())
        response.end()
    else:
        said = "EngineCore encountered an issue. See stack trace (above) for the root cause."
        response.send(500, encode(error_body(500, said, "InternalServerError")))
