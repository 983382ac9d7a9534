"""Which nodes may install an engine, and why not the others."""

from collections.abc import Mapping
from dataclasses import dataclass

from control.checks import Problem
from engines.requirements import Fits, HostFacts, Refused, check, unknown
from engines.vllm.releases import RELEASES

ENGINES = ("vllm",)
DEVICE_KINDS = ("gpu", "cpu")


@dataclass(frozen=True)
class Asked:
    """This node installs it, for this kind of device."""

    node: str
    device_kind: str


@dataclass(frozen=True)
class NotAsked:
    node: str
    reason: str


def problems(engine: str, version: str, device_kind: str | None) -> list[Problem]:
    if engine not in ENGINES:
        what = f"Weir installs no {engine!r}; it installs {', '.join(ENGINES)}"
        return [Problem("engine", what)]
    if version not in RELEASES:
        return [Problem("version", unknown(version, RELEASES))]
    if device_kind not in (None, *DEVICE_KINDS):
        return [Problem("device", f"is {' or '.join(DEVICE_KINDS)}, not {device_kind!r}")]
    return []


def decide(
    version: str, device_kind: str | None, hosts: Mapping[str, HostFacts]
) -> list[Asked | NotAsked]:
    """For cards where a node has any, if it is not said: for them Weir is set up."""
    return [_one(version, device_kind, name, host) for name, host in sorted(hosts.items())]


def _one(version: str, wanted: str | None, name: str, host: HostFacts) -> Asked | NotAsked:
    kind = wanted or kind_of(host)
    checked = check_host(version, kind, host)
    return Asked(name, kind) if isinstance(checked, Fits) else NotAsked(name, str(checked))


def kind_of(host: HostFacts) -> str:
    return "gpu" if host.compute_capabilities else "cpu"


def check_host(version: str, device_kind: str, host: HostFacts) -> Fits | Refused:
    return check(version, device_kind, host, RELEASES)
