"""Stop words of a route: who looks for them, and how they are found across chunk borders."""

import itertools
import json

import pytest

from control.gateway.streams.stops import Split, Watch, Words, cut, split
from tests.gateway.place import chat, route
from tests.gateway.streams.test_cases import content, datas
from tests.gateway.upstream import DONE, Script, answered, chunk, streamed

FIVE = ("one", "two", "three", "four", "STOP")  # one more than an engine of OpenAI's kind takes


@pytest.mark.parametrize(
    ("asked", "defaults", "engine", "expected"),
    [
        (None, ("x",), "vllm", Split(("x",), ())),
        ("a", ("x",), "vllm", Split(("a", "x"), ())),
        (["a", "x"], ("x",), "vllm", Split(("a", "x"), ())),
        (["a", "b", "c"], ("x", "y"), "external", Split(("a", "b", "c", "x"), ("y",))),
        (["a", "b", "c"], ("x", "y"), "vllm", Split(("a", "b", "c", "x", "y"), ())),
        (["a", "b", "c", "d"], ("x",), "external", Split(("a", "b", "c", "d"), ("x",))),
        (None, ("",), "vllm", Split((), ())),
    ],
)
def test_an_engine_gets_as_many_words_as_it_takes_the_tenants_first(
    asked, defaults, engine, expected
):
    assert split(asked, defaults, engine) == expected


@pytest.mark.parametrize(
    ("words", "text", "shown"),
    [
        (("STOP",), "abSTOPcd", "ab"),
        (("STOP",), "abSTO", "abSTO"),
        (("STOP",), "STOP", ""),
        (("aab",), "aaab", "a"),
        (("abc", "b"), "xabc", "xa"),  # the shorter one is whole first
        (("abcd", "bc"), "xabce", "xa"),
        (("abc", "bc"), "xabc", "x"),  # both at once: the one that began first
        (("\n\n",), "a\nb\n\nc", "a\nb"),
        (("水位",), "の水位は", "の"),
    ],
)
def test_a_word_is_found_however_the_text_is_cut(words, text, shown):
    for first, second in itertools.combinations_with_replacement(range(len(text) + 1), 2):
        parts = [text[:first], text[first:second], text[second:]]
        assert played(Words(words), parts) == shown, parts
    assert played(Words(words), list(text)) == shown


def played(words: Words, parts: list[str]) -> str:
    watch, shown = Watch(words), ""
    for part in parts:
        choice = {"index": 0, "delta": {"content": part}, "finish_reason": None}
        watch.pass_on(choice)
        shown += choice["delta"]["content"]
        if choice["finish_reason"]:
            return shown
    return shown + "".join(text for _, text in watch.left())


def test_the_longest_beginning_is_held_back_and_nothing_more():
    words = Words(("STOP", "\n\nUser:"))
    assert [words.held(text) for text in ("x", "xS", "xSTO", "a\n\nUs", "SxT", "\n")] == [
        0,
        1,
        3,
        4,
        0,
        1,
    ]


async def test_words_that_fit_are_the_engines_to_find(place, engines):
    place.know(route(stop=("STOP",)))
    engine = await engines(answered())
    await place.post(chat(stop=["mine"]))
    assert engine.seen[0].body["stop"] == ["mine", "STOP"]


async def test_a_match_ends_the_stream_leaves_the_engine_and_bills_what_was_generated(
    place, engines
):
    place.know(route(stop=FIVE))
    texts = ("so", " far ST", "O", "P and", " more")
    body = b"".join(chunk(text, usage=(7, n)) for n, text in enumerate(texts, 1))
    engine = await engines(Script(chunk(role=True) + body, end="hold"))
    answer = await place.post(chat(stream=True, stream_options={"include_usage": True}))
    assert engine.seen[0].body["stop"] == list(FIVE[:4])
    assert content(answer.body) == "so far "
    *_, last, usage = datas(answer.body)
    assert last["choices"][0]["finish_reason"] == "stop"
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 4)
    assert answer.body.endswith(DONE)
    assert answer.body.count(b"[DONE]") == 1
    await place.until(engine.seen[0].closed.is_set)
    [closed] = place.closes()
    assert (closed.outcome, closed.finish_reason, closed.output_tokens) == ("complete", "stop", 4)


async def test_what_only_looked_like_a_word_is_shown_in_the_end(place, engines):
    place.know(route(stop=FIVE))
    await engines(streamed("a ", "ST"))
    assert content((await place.post(chat(stream=True))).body) == "a ST"
    await engines(Script(chunk("a ST") + DONE))
    place.know_replicas(place.shared.replicas._live[2].info)
    assert content((await place.post(chat(stream=True))).body) == "a ST"


async def test_a_choice_that_is_stopped_does_not_end_the_others(place, engines):
    place.know(route(stop=FIVE))
    parts = [("a", 0), ("X", 1), ("STOP!", 0), ("more", 0), ("Y", 1), (" STOP", 1)]
    body = b"".join(
        chunk(text, index=index, usage=(7, n)) for n, (text, index) in enumerate(parts, 1)
    )
    engine = await engines(Script(body, end="hold"))
    answer = await place.post(chat(stream=True, n=2))
    texts, finishes = {0: "", 1: ""}, []
    for data in datas(answer.body):
        for choice in data["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
            finishes += [choice["index"]] if choice["finish_reason"] else []
    assert (texts, finishes) == ({0: "a", 1: "XY "}, [0, 1])
    assert answer.body.endswith(DONE)
    await place.until(engine.seen[0].closed.is_set)
    assert place.closes()[0].output_tokens == 6


async def test_a_whole_answer_is_cut_and_billed_by_what_was_generated(place, engines):
    place.know(route(stop=FIVE))
    await engines(answered("so far STOP and more", 7, 9))
    answer = await place.post(chat())
    [choice] = answer.json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("so far ", "stop")
    assert answer.json()["usage"]["completion_tokens"] == 9
    assert place.closes()[0].output_tokens == 9


def test_a_whole_answer_without_a_word_stays_byte_for_byte():
    body = json.dumps({"x": 1.0, "choices": [{"text": "abc"}]}).encode()
    assert cut(body, Words(("z",))) is body
    assert json.loads(cut(body, Words(("b",), included=True)))["choices"][0]["text"] == "ab"
