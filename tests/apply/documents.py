"""A service.yaml, and why it is refused."""

import pytest

from control.apply.parse import parse
from control.apply.wanted import BadFile


def refusal(text: str) -> list[str]:
    with pytest.raises(BadFile) as bad:
        parse(text)
    return [str(misfit) for misfit in bad.value.misfits]


def service(lines: str) -> str:
    return f"apiVersion: weir/v1\n{lines}\n"
