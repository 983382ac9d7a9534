"""`weir node VERB`: join, list, describe, cordon, drain, leave and remove nodes from a shell."""

import re
from argparse import ArgumentParser, ArgumentTypeError
from typing import TextIO

from django.conf import settings
from django.core.management.base import CommandError
from django.db import OperationalError
from django.utils import timezone

from control.checks import Refused
from control.fleet import node as nodes
from control.fleet.nodes import actions, facts
from control.fleet.nodes.facts import DeviceFacts, NodeFacts
from control.management.local.schema import SchemaIsOlder, refuse_older_schema
from control.management.shell import actor, database_away, require_database
from control.recovery import actions as recovery

GIB = 1024**3
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
_SECONDS = {None: 1, "s": 1, "m": 60, "h": 3600}


def add_to(parser: ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    join = verbs.add_parser("join", help="take this host's name, before its worker first runs")
    join.add_argument("--pool", help="of nodes, that deployments may name")
    join.add_argument("--label", action="append", default=[], metavar="NAME=VALUE")
    verbs.add_parser("list", help="nodes, their devices, and what is said of them")
    label = verbs.add_parser("label", help="set labels; NAME- takes one away")
    _named(label)
    label.add_argument("labels", nargs="+", metavar="NAME=VALUE")
    pool = verbs.add_parser("pool", help="put a node into a pool")
    _named(pool)
    pool.add_argument("pool")
    for verb, what in (
        ("cordon", "place nothing new on it; what runs there goes on"),
        ("uncordon", "place on it again; this ends a drain too"),
        ("drain", "move all its replicas away, each when its successor serves"),
        ("remove", "strike off a node that will not return"),
    ):
        _named(verbs.add_parser(verb, help=what))
    for verb, what in (
        ("quarantine", "place nothing new on one of its devices; what runs there goes on"),
        ("release", "a device back from quarantine: what spoke against it counts no longer"),
    ):
        device = verbs.add_parser(verb, help=what)
        _named(device)
        device.add_argument("device", help="its uuid, as `weir node list` shows it")
    leaving = verbs.add_parser("leaving", help="the host goes: drained by then, come what may")
    leaving.add_argument("name", nargs="?", default=settings.WEIR_NODE_NAME)
    leaving.add_argument("--in", dest="in_seconds", type=_seconds, required=True, metavar="120s")
    for one in verbs.choices.values():
        one.add_argument("--reason", default="", help="for the audit, and for who asks later")


def carry_out(verb: str, options: dict, out: TextIO) -> None:
    reason = options["reason"] or f"weir node {verb}"
    who = {"by": actor(), "reason": reason, "at": timezone.now()}
    try:
        require_database()
        refuse_older_schema()
        _VERBS[verb](options, who)
    except Refused as refused:
        raise CommandError("\n".join(str(problem) for problem in refused.problems)) from None
    except (nodes.NameTaken, SchemaIsOlder) as refused:
        raise CommandError(str(refused)) from None
    except OperationalError as error:
        raise database_away(error) from None
    name = settings.WEIR_NODE_NAME if verb == "join" else options.get("name")
    for node in facts.nodes(name=name):
        out.write(_line(node))
        for device in node.devices:
            out.write(_device(device))


def _named(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="of the node, as `weir node list` shows it")


def _join(options: dict, who: dict) -> None:
    node = nodes.join(settings.WEIR_NODE_NAME)
    labels = node.labels | _pairs(options["label"])
    actions.describe(node.name, pool=options["pool"], labels=labels, **who)


def _label(options: dict, who: dict) -> None:
    node = facts.node(options["name"])
    labels = dict(node.labels) if node else {}
    given = options["labels"]
    gone = [one[:-1] for one in given if one.endswith("-") and "=" not in one]
    labels |= _pairs([one for one in given if one[:-1] not in gone])
    kept = {name: value for name, value in labels.items() if name not in gone}
    actions.describe(options["name"], labels=kept, **who)


def _pairs(given: list[str]) -> dict[str, str]:
    """`preemptible` alone is preemptible=true."""
    pairs = (one.partition("=") for one in given)
    return {name: value if equals else "true" for name, equals, value in pairs}


def _pool(options: dict, who: dict) -> None:
    actions.describe(options["name"], pool=options["pool"], **who)


def _cordon(options: dict, who: dict) -> None:
    actions.cordon(options["name"], True, **who)


def _uncordon(options: dict, who: dict) -> None:
    actions.cordon(options["name"], False, **who)


def _drain(options: dict, who: dict) -> None:
    actions.drain_node(options["name"], **who)


def _remove(options: dict, who: dict) -> None:
    actions.remove_node(options["name"], **who)


def _leaving(options: dict, who: dict) -> None:
    actions.leave(options["name"], options["in_seconds"], **who)


def _quarantine(options: dict, who: dict) -> None:
    recovery.quarantine_device(options["name"], options["device"], **who)


def _release(options: dict, who: dict) -> None:
    recovery.release_device(options["name"], options["device"], **who)


_VERBS = {
    "join": _join,
    "list": lambda options, who: None,
    "label": _label,
    "pool": _pool,
    "cordon": _cordon,
    "uncordon": _uncordon,
    "drain": _drain,
    "remove": _remove,
    "leaving": _leaving,
    "quarantine": _quarantine,
    "release": _release,
}


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text)
    if not found:
        raise ArgumentTypeError(f"{text!r} is no time: write 120s, 2m or 1h")
    return float(found[1]) * _SECONDS[found[2]]


def _line(node: NodeFacts) -> str:
    labels = ",".join(f"{name}={value}" for name, value in sorted(node.labels.items()))
    by = f"by {node.leaving_by:%Y-%m-%dT%H:%M:%SZ}" if node.leaving_by else ""
    count = f"{node.live_replicas} live replica{'s' if node.live_replicas != 1 else ''}"
    parts = (node.name, node.state, node.standing, by, f"pool {node.pool}", labels, count)
    return "  ".join(part for part in parts if part)


def _device(device: DeviceFacts) -> str:
    said = device.error or device.quarantine_reason
    free = device.memory_free_bytes
    size = f"{device.memory_total_bytes / GIB:.1f} GiB"
    room = "" if free is None else f"{free / GIB:.1f} free"
    parts = (device.uuid, device.name, size, room, said)
    return "    " + "  ".join(part for part in parts if part)
