"""One form for what all processes log, and the one place where secrets are taken out of it."""

import json
import logging
import re

HIDDEN = "***"
_CALL = re.compile(r"\breq_[0-9a-f]{32}\b")
_NAMES = r"(?:proxy-)?authorization|x-api-key|api[-_]?key|password|secret|token"
_SECRETS = (
    (re.compile(r"""(?i)\b(set-cookie|cookie)\b(["']?\s*[:=,]\s*)[^\r\n]+"""), rf"\1\2{HIDDEN}"),
    # A header or a member, in whichever quotes, to the end of its value.
    (
        re.compile(
            rf"""(?i)\b({_NAMES})\b(["']?\s*[:=,]\s*b?)("[^"]*"|'[^']*'|[^\r\n,;}})&"']+)"""
        ),
        rf"\1\2{HIDDEN}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s,;\"']+"), rf"\1 {HIDDEN}"),
    (re.compile(r"\bweir-[A-Za-z0-9_\-]{8,}"), f"weir-{HIDDEN}"),
    (re.compile(r"\b(sk-|hf_)[A-Za-z0-9_\-]{8,}"), rf"\1{HIDDEN}"),
    (re.compile(r"://[^\s/@\"']+@"), f"://{HIDDEN}@"),
    (re.compile(r"\?[^\s\"'<>?]*=[^\s\"'<>]*"), f"?{HIDDEN}"),  # queries hold what nobody expects
)


SAID_EVERY_SECONDS = 60.0
# Of these a message is told now and then: channels_redis says with each one sent that a page reads
# too slowly.
_SELDOM = ("channels_redis.core",)
_CALM = ("django.channels.server", "httpx", "httpcore", "celery", "kombu", "uvicorn")


def config(*, level: str, form: str) -> dict:
    """For logging.config: all processes alike, to standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"text": {"()": LineFormatter}, "json": {"()": JsonFormatter}},
        "filters": {"now and then": {"()": NowAndThen}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": form}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            **dict.fromkeys(_CALM, {"level": "WARNING"}),
            **dict.fromkeys(_SELDOM, {"filters": ["now and then"]}),
            "psycopg.pool": {"level": "ERROR"},
        },
    }


def redacted(text: str) -> str:
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class NowAndThen(logging.Filter):
    """The same message, whatever it is about, at most once in SAID_EVERY_SECONDS."""

    def __init__(self) -> None:
        super().__init__()
        self._said_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        what = str(record.msg)  # before its arguments are put in: as many as there are statements
        said_at = self._said_at.get(what)
        if said_at is not None and record.created - said_at < SAID_EVERY_SECONDS:
            return False
        self._said_at[what] = record.created
        return True


class LineFormatter(logging.Formatter):
    """For people: a line each, also of text with line breaks in it, which would forge others."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        record.message = record.message.replace("\r", r"\r").replace("\n", r"\n")
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


class JsonFormatter(logging.Formatter):
    """For collectors of logs: an object a line, with the call that it is about."""

    def format(self, record: logging.LogRecord) -> str:
        message = redacted(record.getMessage())
        line = {
            "at": round(record.created, 3),
            "level": record.levelname,
            "logger": record.name,
            "message": message,
            "process": record.process,
        }
        if found := _CALL.search(message):
            line["call_id"] = found.group()
        for name, value in getattr(record, "fields", {}).items():
            line.setdefault(name, redacted(value) if isinstance(value, str) else value)
        if record.exc_info:
            line["exception"] = redacted(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)
