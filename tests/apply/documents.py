"""A service.yaml, and why it is refused."""

import pytest

from control.apply.parse import read
from control.apply.wanted import BadFile, Service, misfits


def parse(text: str, *, stub_allowed: bool = False) -> Service:
    """Everything the file asks for, or BadFile with everything that is wrong with it."""
    service, problems = read(text, stub_allowed=stub_allowed)
    if problems:
        raise BadFile(misfits(service.lines, problems))
    return service


def refusal(text: str) -> list[str]:
    with pytest.raises(BadFile) as bad:
        parse(text)
    return [str(misfit) for misfit in bad.value.misfits]


def service(lines: str) -> str:
    return f"apiVersion: weir/v1\n{lines}\n"
