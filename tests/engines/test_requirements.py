"""Which release of an engine a host can run, and what is said where it cannot."""

from dataclasses import replace

import pytest

from engines.requirements import Fits, HostFacts, Refused, Release, check, numbers
from engines.vllm.releases import RELEASES

HOST = HostFacts("x86_64", "2.36", "3.11.2", "580.95.05", "13.0", ("9.0",), read=True)
OLD = Release(((3, 9), (3, 12)), (2, 28), ("x86_64",), (12, 6), (560, 28), (7, 0), "2.6.0")
NEW = replace(OLD, python=((3, 11), (3, 14)), cuda=(13, 0), driver=(580, 65))
NEWEST = replace(NEW, glibc=(2, 38), compute_capability=(8, 0), torch_cpu="")
THREE = {"0.9.2": OLD, "0.32.0": NEW, "0.40.0": NEWEST}


@pytest.mark.parametrize(
    ("version", "kind", "changes", "said", "newest"),
    [
        ("0.40.0", "gpu", {}, "needs glibc 2.38, this system has 2.36", "0.32.0"),
        ("0.40.0", "cpu", {"glibc": "2.40"}, "there is no build of it for CPU", "0.32.0"),
        ("0.32.0", "gpu", {"driver": "535.1", "cuda": "12.2"}, "needs CUDA 13.0 (driver 580.65 or "
         "newer), the driver 535.1 serves 12.2", ""),
        ("0.32.0", "gpu", {"driver": "570.1", "cuda": "12.8"}, "serves 12.8", "0.9.2"),
        ("0.32.0", "gpu", {"cuda": ""}, "serves an older one", ""),
        ("0.32.0", "gpu", {"driver": "580.10"}, "needs driver 580.65, the host has", "0.9.2"),
        ("0.40.0", "gpu", {"glibc": "2.39", "compute_capabilities": ("7.5", "7.0")},
         "needs compute capability 8.0, its cards have 7.5, 7.0", "0.32.0"),
        ("0.32.0", "gpu", {"compute_capabilities": ()}, "the host shows none", ""),
        ("0.32.0", "cpu", {"python": "3.10.4"}, "needs Python 3.11 to 3.14, engines are built on "
         "3.10.4 here (WEIR_ENGINE_PYTHON names another)", "0.9.2"),
        ("0.32.0", "cpu", {"python": ""}, "none that runs", ""),
        ("0.32.0", "cpu", {"glibc": ""}, "another C library", ""),
        ("0.32.0", "cpu", {"machine": "riscv64"}, "has wheels for x86_64, not for riscv64", ""),
        ("0.33.0", "cpu", {}, "vllm 0.33.0 is not supported: its command line, metrics and log "
         "were not tried with Weir; supported: 0.9.2, 0.32.0, 0.40.0", "0.32.0"),
        ("0.32.0", "cpu", {"read": False}, "has not said yet what it is", ""),
    ],
)  # fmt: skip
def test_what_a_host_lacks_is_said_with_the_newest_that_would_do(
    version, kind, changes, said, newest
):
    found = check(version, kind, replace(HOST, **changes), THREE)
    assert isinstance(found, Refused)
    assert said in str(found)
    assert found.newest == newest
    assert (newest or "none of the known releases would do here") in str(found)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("gpu", {}),
        ("cpu", {"compute_capabilities": (), "driver": "", "cuda": ""}),
        ("gpu", {"compute_capabilities": ("7.0", "9.0")}),
        ("gpu", {"driver": "590.1", "cuda": "13.1", "glibc": "2.41"}),
    ],
)
def test_a_host_that_has_all_of_it_may_install(kind, changes):
    assert check("0.32.0", kind, replace(HOST, **changes), THREE) == Fits()


def test_what_weir_was_tried_with_runs_here():
    assert check("0.32.0", "gpu", HOST, RELEASES) == Fits()


def test_a_version_is_compared_by_its_numbers():
    assert numbers("0.9.2") < numbers("0.32.0")
    assert numbers("2.36-9+deb12") == (2, 36)
    assert numbers("unknown") == ()
