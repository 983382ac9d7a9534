"""Checks of single members: type, range and size, each refusal with the member's path."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from control.gateway import errors

Check = Callable[[Any, str], None]


def kind(value: Any, kinds: type | tuple[type, ...], param: str, wanted: str) -> None:
    if type(value) is kinds:
        return  # nearly always
    if isinstance(value, bool) and kinds is not bool or not isinstance(value, kinds):
        raise errors.InvalidType(f"'{param}' must be {wanted}.", param=param)


def whole(low: int, high: int) -> Check:
    def check(value: Any, param: str) -> None:
        kind(value, int, param, "a whole number")
        if not low <= value <= high:
            raise errors.InvalidValue(
                f"'{param}' must be between {low} and {high}, not {value}.", param=param
            )

    return check


def number(low: float, high: float) -> Check:
    def check(value: Any, param: str) -> None:
        kind(value, (int, float), param, "a number")
        if not low <= value <= high:
            raise errors.InvalidValue(f"'{param}' must be between {low} and {high}.", param=param)

    return check


def share(high: float) -> Check:
    """A number above zero, and at most this."""
    inside = number(0, high)

    def check(value: Any, param: str) -> None:
        inside(value, param)
        if value <= 0:
            raise errors.InvalidValue(f"'{param}' must be above 0 and at most {high}.", param=param)

    return check


def flag(value: Any, param: str) -> None:
    kind(value, bool, param, "true or false")


def text(value: Any, param: str) -> None:
    kind(value, str, param, "a string")


def short(most: int, least: int = 0) -> Check:
    """A string of so many characters."""

    def check(value: Any, param: str) -> None:
        kind(value, str, param, "a string")
        if not least <= len(value) <= most:
            raise errors.InvalidValue(
                f"'{param}' must have {least} to {most} characters, not {len(value)}.", param=param
            )

    return check


def object_(value: Any, param: str) -> None:
    kind(value, dict, param, "an object")


def array(
    most: int,
    each: Check | None = None,
    least: int = 0,
    is_usual: Callable[[Any], bool] | None = None,
) -> Check:
    """`is_usual` is true only of elements that `each` would let pass, and says so sooner."""

    def check(value: Any, param: str) -> None:
        kind(value, list, param, "an array")
        if not least <= len(value) <= most:
            raise errors.InvalidValue(
                f"'{param}' must have {least} to {most} elements, not {len(value)}.", param=param
            )
        if is_usual and all(map(is_usual, value)):
            return
        for index, element in enumerate(value if each else ()):
            each(element, f"{param}[{index}]")

    return check


_WORDS = {str: "a string", list: "an array", dict: "an object"}


def either(*options: tuple[type, Check]) -> Check:
    def check(value: Any, param: str) -> None:
        for one, option in options:
            if isinstance(value, one):
                return option(value, param)
        names = " or ".join(_WORDS[one] for one, _ in options)
        raise errors.InvalidType(f"'{param}' must be {names}.", param=param)

    return check


def one_of(*values: str) -> Check:
    def check(value: Any, param: str) -> None:
        kind(value, str, param, "a string")
        if value not in values:
            raise errors.InvalidValue(
                f"'{param}' must be one of {', '.join(sorted(values))}.", param=param
            )

    return check


def shape(members: dict[str, Check | None], required: Iterable[str] = ()) -> Check:
    """An object with these members and no others; what has no check passes as it is."""

    def check(value: Any, param: str) -> None:
        kind(value, dict, param, "an object")
        for name, inner in value.items():
            path = f"{param}.{name[:64]}"
            if name not in members:
                raise errors.UnknownParameter(f"Unknown parameter: '{path}'.", param=path)
            if inner is not None and (judge := members[name]) is not None:
                judge(inner, path)
        for name in required:
            if value.get(name) is None:
                path = f"{param}.{name}"
                raise errors.MissingParameter(f"Missing required parameter: '{path}'.", param=path)

    return check


def sized(bytes_max: int, then: Check) -> Check:
    """Of the kind that `then` checks, and no larger than this as JSON."""

    def check(value: Any, param: str) -> None:
        then(value, param)
        size = len(msgspec.json.encode(value))
        if size > bytes_max:
            raise errors.InvalidValue(
                f"'{param}' is {size} bytes, at most {bytes_max} are allowed.", param=param
            )

    return check


def refused(why: str, allowed: tuple[Any, ...] = ()) -> Check:
    """A member that is known and cannot be served; `allowed` are the values that ask for nothing.

    `why` ends the sentence that begins with the member's name.
    """

    def check(value: Any, param: str) -> None:
        if not any(value is one or value == one for one in allowed):
            raise errors.InvalidValue(f"'{param}' {why}", param=param)

    return check
