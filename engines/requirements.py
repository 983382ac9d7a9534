"""What a release of an engine needs of a host, and whether a host has it (pure)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

Numbers = tuple[int, ...]
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")


@dataclass(frozen=True)
class Release:
    """What one release needs. `cuda`, `driver` and `compute_capability` count for cards only."""

    python: tuple[Numbers, Numbers]  # oldest and newest
    glibc: Numbers
    machines: tuple[str, ...]
    cuda: Numbers
    driver: Numbers
    compute_capability: Numbers
    torch_cpu: str = ""  # the PyTorch that it was tried with on a CPU; none: there is no build


@dataclass(frozen=True)
class HostFacts:
    """What a host says of itself; an empty text is what it does not say."""

    machine: str = ""  # x86_64
    glibc: str = ""  # "2.36"; empty on a system with another C library
    python: str = ""  # the one that engines are built on
    driver: str = ""
    cuda: str = ""  # the newest that its driver serves
    compute_capabilities: tuple[str, ...] = ()  # of its cards
    read: bool = False  # whether the host has told at all


@dataclass(frozen=True)
class Fits:
    """It may be installed there."""


@dataclass(frozen=True)
class Refused:
    """Why not, and the newest release that would do; empty: none of those that are known."""

    reasons: tuple[str, ...]
    newest: str = ""

    def __str__(self) -> str:
        instead = (
            f"the newest that would do here is {self.newest}"
            if self.newest
            else "none of the known releases would do here"
        )
        return f"{'; '.join(self.reasons)}; {instead}"


def check(
    version: str, device_kind: str, host: HostFacts, releases: Mapping[str, Release]
) -> Fits | Refused:
    """Whether this release runs on this host, before anything is downloaded for it."""
    release = releases.get(version)
    if release is None:
        reasons: tuple[str, ...] = (unknown(version, releases),)
    else:
        reasons = _lacks(release, device_kind, host)
    if not reasons:
        return Fits()
    able = [name for name, one in releases.items() if not _lacks(one, device_kind, host)]
    return Refused(reasons, max(able, key=numbers, default=""))


def unknown(version: str, releases: Mapping[str, Release]) -> str:
    known = ", ".join(sorted(releases, key=numbers))
    return (
        f"vllm {version or '(none)'} is not supported: its command line, metrics and log were "
        f"not tried with Weir; supported: {known}"
    )


@lru_cache(maxsize=256)  # placement asks it of each card
def numbers(text: str) -> Numbers:
    """The leading numbers: "580.95.05" -> (580, 95, 5); nothing readable -> ()."""
    found = _NUMBERS.match(text)
    return tuple(map(int, found.group().split("."))) if found else ()


def text(wanted: Numbers) -> str:
    return ".".join(map(str, wanted))


def _lacks(release: Release, device_kind: str, host: HostFacts) -> tuple[str, ...]:
    if not host.read:
        return ("its host has not said yet what it is: start its worker, then ask again",)
    found = [*lacks_of_the_system(release, host)]
    if device_kind == "gpu":
        found += _of_the_cards(release, host)
    elif not release.torch_cpu:
        found.append("there is no build of it for CPU")
    return tuple(found)


def lacks_of_the_system(release: Release, host: HostFacts) -> list[str]:
    found = []
    oldest, newest = release.python
    if not oldest <= numbers(host.python)[:2] <= newest:
        found.append(
            f"needs Python {text(oldest)} to {text(newest)}, engines are built on "
            f"{host.python or 'none that runs'} here (WEIR_ENGINE_PYTHON names another)"
        )
    if not host.glibc:
        found.append(f"needs glibc {text(release.glibc)}, this system has another C library")
    elif numbers(host.glibc) < release.glibc:
        found.append(f"needs glibc {text(release.glibc)}, this system has {host.glibc}")
    if host.machine not in release.machines:
        found.append(f"has wheels for {', '.join(release.machines)}, not for {host.machine}")
    return found


def _of_the_cards(release: Release, host: HostFacts) -> list[str]:
    if not host.compute_capabilities:
        return ["needs a GPU, and the host shows none (nvidia-smi says why)"]
    found = []
    if numbers(host.cuda) < release.cuda:
        # The driver says which CUDA it serves; one that is too old for that says nothing.
        found.append(
            f"needs CUDA {text(release.cuda)} (driver {text(release.driver)} or newer), the "
            f"driver {host.driver or 'of unknown version'} serves {host.cuda or 'an older one'}"
        )
    elif numbers(host.driver) < release.driver:
        found.append(f"needs driver {text(release.driver)}, the host has {host.driver or 'none'}")
    weak = [it for it in host.compute_capabilities if numbers(it) < release.compute_capability]
    if len(weak) == len(host.compute_capabilities):
        needed = text(release.compute_capability)
        found.append(f"needs compute capability {needed}, its cards have {', '.join(weak)}")
    return found
