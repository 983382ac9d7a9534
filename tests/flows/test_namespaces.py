"""Where hosts cannot have networks of their own, tests say why."""

import pytest

from tests.flows.namespaces import addresses_of, why_not_with

TOOLS = {"ip": "/sbin/ip", "unshare": "/usr/bin/unshare", "nsenter": "/usr/bin/nsenter"}


@pytest.mark.parametrize(
    ("account", "without", "says"),
    [(1000, "", "want root"), (0, "ip", "want ip (iproute2"), (0, "nsenter", "want nsenter")],
)
def test_what_is_missing_is_named(account, without, says):
    tools = {name: path for name, path in TOOLS.items() if name != without}
    assert says in why_not_with(account, tools.get)


def test_two_networks_never_have_an_address_in_common():
    told = [addresses_of(pid) for pid in (1, 2, 31, 32, 8191, 8192, 32767, 262143)]
    every = [address for one in told for address in (one.gateway, one.other, one.host)]
    assert len(set(every)) == len(every)
    assert all(0 <= int(part) <= 255 for address in every for part in address.split("."))
