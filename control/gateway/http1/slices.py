"""Something done to each of many, a few in each turn of the loop: no chunk of a stream waits
for all of it."""

import asyncio
from collections.abc import Callable
from typing import Any


def in_slices(act: Callable[[Any], None], items: tuple[Any, ...], at_once: int) -> None:
    """The first of them now."""
    for item in items[:at_once]:
        act(item)
    if rest := items[at_once:]:
        asyncio.get_running_loop().call_soon(in_slices, act, rest, at_once)
