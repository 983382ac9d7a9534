"""Requests without a valid key, limited per client address, in bounded memory."""

from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network, ip_address

from control.gateway.admission.rules import Denied, Gcra

_IPV6_BITS = 64  # what one host or household has for itself


class Strangers:
    """Each gateway process counts alone and bears its share: nothing is stored for the unknown."""

    def __init__(
        self, *, per_minute: int, processes: int, addresses_max: int, clock: Callable[[], float]
    ) -> None:
        burst = max(per_minute // processes, 1)
        self._rate = Gcra(60 / burst, burst)
        self._addresses_max = addresses_max
        self._clock = clock
        self._tats: OrderedDict[str, float] = OrderedDict()  # the one heard of longest ago first

    def __len__(self) -> int:
        return len(self._tats)

    def wait_seconds(self, address: str) -> float:
        """Counts one more request; above zero if it is one too many."""
        network = network_of(address)
        tat = self._tats.pop(network, 0.0)
        taken = self._rate.take(tat, self._clock())
        denied = isinstance(taken, Denied)
        self._tats[network] = tat if denied else taken.tat
        if len(self._tats) > self._addresses_max:
            self._tats.popitem(last=False)
        return taken.wait_seconds if denied else 0.0


def network_of(address: str) -> str:
    try:
        known = ip_address(address)
    except ValueError:
        return address
    if not isinstance(known, IPv6Address):
        return address
    if known.ipv4_mapped:
        return str(known.ipv4_mapped)
    return str(IPv6Network((int(known), _IPV6_BITS), strict=False))
