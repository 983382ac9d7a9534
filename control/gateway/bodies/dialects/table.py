"""Which endpoints speak another dialect than OpenAI's chat, and who reads them."""

from collections.abc import Callable
from typing import Any

from control.gateway.bodies.dialects import messages, responses
from control.gateway.bodies.dialects.dialect import Spoken

DIALECTS: dict[str, Callable[[dict[str, Any]], Spoken]] = {
    "messages": messages.read,
    "messages.count_tokens": messages.read_counted,
    "responses": responses.read,
}
