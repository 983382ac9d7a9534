"""What `weir` says of itself: its commands, a line each."""

from django.core.management import get_commands, load_command_class

_INTERNAL = frozenset({"gateway_worker", "welcome"})  # which other commands start
_END = "`weir COMMAND --help` says more. `weir help --commands` names Django's own commands too."


def text() -> str:
    names = sorted(name for name, app in get_commands().items() if app == "control")
    lines = [_line(name) for name in names if name not in _INTERNAL]
    return "\n".join(["usage: weir COMMAND ...", "", *lines, "", _END, ""])


def _line(name: str) -> str:
    what, _, _ = load_command_class("control", name).help.partition(". ")  # its first sentence
    return f"  {name:10}{what.removesuffix('.')}."
