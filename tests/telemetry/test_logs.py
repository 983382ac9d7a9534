"""Logs tell which call they are about, and never a secret."""

import json
import logging
import sys

import pytest
import uvicorn
from channels_redis import core
from django.core.management import call_command

from control.telemetry.logs import JsonFormatter, LineFormatter, NowAndThen, config, redacted

SECRET = "abcSECRET123"
CALL = "req_0190000000007000800000000000abcd"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"Authorization: {SECRET}",
        f"Authorization: Bearer {SECRET}\r\nhost: x",
        f"{{b'authorization': b'Bearer {SECRET}'}}",
        f'{{"authorization": "Bearer {SECRET}", "host": "x"}}',
        f"('authorization', '{SECRET}')",
        f"proxy-authorization: Basic {SECRET}",
        f"x-api-key={SECRET}",
        f"api_key: {SECRET}",
        f"Cookie: session={SECRET}; other={SECRET}",
        f"Set-Cookie: session={SECRET}",
        f"no connection to https://user:{SECRET}@engine/v1",
        f"GET /v1/models?key={SECRET}&x=1 failed",
        f"https://engine/v1?sig={SECRET}",
        f"the key weir-{SECRET}{SECRET} is unknown",
        f"hf_{SECRET}",
        f"sk-{SECRET}",
        f"password={SECRET}",
        f"illegal header line: bearer {SECRET}",
    ],
)
def test_a_secret_is_hidden_wherever_it_stands(text):
    assert SECRET not in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        f"call {CALL}: a record is not in the spool",
        "12 tokens per second; 3 tokens a call",
        "gateway worker 3 ended with -9; starting it again in 0.1 s",
        "did it work? yes",
    ],
)
def test_other_text_stays_as_it_is(text):
    assert redacted(text) == text


def test_the_console_logs_in_the_form_of_all_and_not_each_socket(transactional_db, monkeypatch):
    asked = {}
    monkeypatch.setattr(uvicorn, "run", lambda app, **options: asked.update(options, app=app))
    call_command("web")
    uvicorn.Config(**asked)
    logger = logging.getLogger("uvicorn.error")
    assert not logger.isEnabledFor(logging.INFO)
    while logger.parent and logger.propagate and not logger.handlers:
        logger = logger.parent
    assert logger is logging.getLogger()


def a_record(message: str, *args: object, exc_info=None) -> logging.LogRecord:
    return logging.LogRecord("weir", logging.ERROR, __file__, 1, message, args, exc_info)


def test_a_line_of_json_names_its_call():
    line = json.loads(JsonFormatter().format(a_record("request %s failed", CALL)))
    assert (line["call_id"], line["level"], line["logger"]) == (CALL, "ERROR", "weir")
    assert line["message"] == f"request {CALL} failed"


def test_an_exception_is_told_without_the_secret_in_it():
    try:
        raise ValueError(f"https://engine/?key={SECRET} and Authorization: Bearer {SECRET}")
    except ValueError:
        record = a_record("failed", exc_info=sys.exc_info())
    for formatter in (JsonFormatter(), LineFormatter()):
        text = formatter.format(record)
        assert "ValueError" in text
        assert SECRET not in text


@pytest.mark.parametrize("formatter", [JsonFormatter(), LineFormatter()])
def test_h06_line_breaks_in_what_others_say_forge_no_line(formatter):
    text = formatter.format(a_record("unknown name %s", "a\r\nERROR weir: forged"))
    assert len(text.splitlines()) == 1


def test_what_a_library_says_with_each_message_is_told_once_a_minute():
    now_and_then = NowAndThen()

    def is_told(at: float, message: str, *args: object) -> bool:
        record = a_record(message, *args)
        record.created = at
        return now_and_then.filter(record)

    full = "%s of %s channels over capacity in group %s"
    assert is_told(100.0, full, 1, 2, "overview")
    assert not is_told(159.9, full, 2, 2, "nodes")
    assert is_told(159.9, "something else")
    assert is_told(160.0, full, 1, 2, "overview")


def test_the_layer_of_open_pages_is_such_a_library():
    loggers = config(level="INFO", form="text")["loggers"]
    assert loggers[core.logger.name]["filters"] == ["now and then"]
