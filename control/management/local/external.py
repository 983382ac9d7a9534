"""Servers of the operator's own: asked once, before anything is started on them."""

from urllib.parse import urlsplit

import psycopg
import redis

from control.management.local.valkey import NO_RETRY

ANSWER_SECONDS_MAX = 5


class NotReachable(Exception):
    """Says which variable, which address, and what the server or the network said."""


def require_database(url: str) -> None:
    try:
        psycopg.connect(url, connect_timeout=ANSWER_SECONDS_MAX).close()
    except psycopg.Error as error:
        raise NotReachable(_told("WEIR_DATABASE_URL", "PostgreSQL", url, error)) from None


def require_redis(url: str) -> None:
    try:
        with redis.Redis.from_url(
            url, socket_timeout=ANSWER_SECONDS_MAX, retry=NO_RETRY
        ) as connection:
            connection.ping()
    except (redis.RedisError, ValueError) as error:
        raise NotReachable(_told("WEIR_REDIS_URL", "Valkey or Redis", url, error)) from None


def _told(variable: str, what: str, url: str, error: Exception) -> str:
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    said = " ".join(str(error).split())
    return f"no {what} at {parts.hostname}{port} (from {variable}): {said or repr(error)}"
