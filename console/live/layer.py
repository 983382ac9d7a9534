"""The channel layer on Valkey: named by the settings, loaded by those alone who send through it."""

from typing import Any

from channels_redis.core import RedisChannelLayer
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError, TimeoutError

MEMBER_SECONDS = 3700  # a page's socket lives for an hour: after that a member is a dead process's


class Layer(RedisChannelLayer):
    """Without a retry every open WebSocket dies with one restart of Valkey."""

    def __init__(self, url: str, **options: Any) -> None:
        host = {
            "address": url,
            "retry": Retry(ExponentialBackoff(cap=1, base=0.05), 6),
            "retry_on_error": [ConnectionError, TimeoutError],
            "health_check_interval": 15,
            "socket_keepalive": True,
        }
        super().__init__(hosts=[host], group_expiry=MEMBER_SECONDS, **options)
