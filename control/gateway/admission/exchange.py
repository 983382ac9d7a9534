"""Leases of one process, kept filled, renewed and given back beside the calls that spend them."""

import asyncio
import secrets
from collections.abc import Callable, Iterable
from itertools import count, islice
from math import inf
from weakref import WeakValueDictionary

from control.gateway.admission.bundles import Bundle
from control.gateway.admission.commands import Commands, Exchanged
from control.gateway.admission.leases import Lease, block_of
from control.gateway.admission.rules import Check
from control.gateway.admission.valkey import OnReply, Reply, ReplyError, Valkey
from control.gateway.limits import Limits

_AT_ONCE_MAX = 64  # leases of one step


class Exchange:
    """An exchange tells what a lease was spent on, and asks for more or gives up the rest."""

    def __init__(
        self,
        valkey: Valkey,
        commands: Commands,
        *,
        limits: Limits,
        clock: Callable[[], float],
        on_failed: Callable[[ReplyError], None],
    ) -> None:
        self._valkey = valkey
        self._commands = commands
        self._lease_seconds = limits.lease_seconds
        self._bundles_max = limits.lease_bundles
        self._clock = clock
        self._on_failed = on_failed
        self._process = secrets.token_hex(6)
        self._numbers = count()
        self._bundles: dict[int, Bundle] = {}  # by the identity of the checks: hashing costs more
        self._known: WeakValueDictionary[Check, Lease] = WeakValueDictionary()
        self._active: dict[Lease, None] = {}  # that hold something, or owe a word
        self._due: list[Lease] = []
        self._purses: list[Bundle] = []  # that may be open
        self._flushing = False
        self._starts = 0
        self._good_until = inf  # no lease in use ends before

    # --- calls ---

    def bundle_of(self, checks: tuple[Check, ...]) -> Bundle:
        bundle = self._bundles.get(id(checks))
        if bundle is None or bundle.checks is not checks:
            if len(self._bundles) >= self._bundles_max:
                self._bundles.clear()
            leases = [self._lease_of(check) for check in checks if block_of(check)]
            bundle = self._bundles[id(checks)] = Bundle(checks, leases)
        return bundle

    def spend(self, bundle: Bundle, tokens_in: int, tokens_out: int) -> bool:
        now = self._clock()
        if now >= self._good_until:
            self._end_old(now)
        was_open = bundle.is_open
        spent = bundle.spend(tokens_in, tokens_out, self._due)
        if not spent and self._purses:
            self._close_purses()  # of others too: there may be what is missing
            was_open, spent = False, bundle.spend(tokens_in, tokens_out, self._due)
        if not was_open and bundle.is_open:
            self._purses.append(bundle)
        if self._due and not self._flushing:
            self._flush_soon()
        return spent

    def settle(self, bundle: Bundle, more_in: int, more_out: int) -> None:
        if not bundle.is_open:
            self._purses.append(bundle)
        bundle.settle(more_in, more_out, self._due)
        if self._due and not self._flushing:
            self._flush_soon()

    def in_use(self, check: Check) -> int:
        self._close_purses()
        lease = self._known.get(check)
        return lease.in_use if lease else 0

    # --- exchanges ---

    def give_back(self, bundle: Bundle) -> list[Lease]:
        """All that is unused, so that it does not stand in the way of a call that asks.

        Returns the leases that may be filled again behind it.
        """
        self._close_purses()
        free = [lease for lease in bundle.leases if not lease.flying]
        fillable = [lease for lease in free if not lease.quiet]
        self._send([Exchanged(lease, lease.give_back(0)) for lease in free if lease.left])
        return fillable

    def refill(self, leases: Iterable[Lease]) -> None:
        self._send([_filled(lease) for lease in leases])

    def sweep(self, now: float, *, renews: bool) -> None:
        """Tell what has changed; renew what is in use and give back what is not."""
        if now >= self._good_until:
            self._end_old(now)
        self._close_purses()
        exchanged = []
        for lease in tuple(self._active):
            if lease.flying:
                continue
            lease.quiet = False
            if lease.is_empty:
                del self._active[lease]
                lease.active = False
            elif renews:
                exchanged.append(Exchanged(lease, _unused(lease)))
            elif lease.change or lease.left > lease.block:
                exchanged.append(Exchanged(lease, lease.give_back(lease.block)))
        self._send(exchanged)

    def give_up(self) -> None:
        """The process ends: another need not wait until the leases do."""
        self._close_purses()
        self._send([Exchanged(x, x.give_back(0)) for x in self._active if not x.flying])

    def restart(self) -> None:
        """A connection is new: calls that run are announced, all else was with the old one."""
        self._starts += 1
        self._close_purses()
        for lease in self._active:
            lease.restart()
        running = [Exchanged(lease) for lease in self._active if lease.in_use]
        self._send(running, new=True)

    def _flush_soon(self) -> None:
        self._flushing = True
        asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._close_purses()
        self._flushing = False
        due, self._due = self._due, []
        for lease in due:
            lease.due = False
        if self._valkey.connected:
            self._send([_filled(lease) for lease in due if not lease.flying])

    def _send(self, exchanged: list[Exchanged], *, new: bool = False) -> None:
        rest = iter(exchanged)
        while some := list(islice(rest, _AT_ONCE_MAX)):
            command = self._commands.exchange(some, new=new)
            for lease, _, _ in some:
                lease.change = 0
                lease.flying += 1
                lease.quiet = lease.active = True
                self._active[lease] = None
            self._valkey.send(command, self._on_reply(some, self._clock() + self._lease_seconds))

    def _on_reply(self, exchanged: list[Exchanged], ends: float) -> OnReply:
        """`ends` is reckoned from before it was sent: here a lease ends first."""
        starts = self._starts

        def on_reply(reply: Reply) -> None:
            if isinstance(reply, ReplyError):
                return self._on_failed(reply)
            if starts != self._starts:
                return None  # all began anew since it was sent
            for number, (lease, _, wanted) in enumerate(exchanged):
                lease.flying -= 1
                known, more, room = reply[3 * number : 3 * number + 3]
                if not known:
                    self._close_purses()
                    lease.forget()
                lease.left += more
                lease.room, lease.ends = room, ends
                # With less to be had than half of it, the next calls ask for themselves.
                lease.quiet = more < wanted / 2
            self._good_until = min(self._good_until, ends)
            return None

        return on_reply

    # --- inside ---

    def _lease_of(self, check: Check) -> Lease:
        lease = self._known.get(check)
        if lease is None:
            lease = Lease(check, f"{self._process}.{next(self._numbers)}")
            self._known[check] = lease
        return lease

    def _close_purses(self) -> None:
        """Before leases are looked at or changed by anything but a call."""
        purses, self._purses = self._purses, []
        for bundle in purses:
            bundle.close(self._due)
        if self._due and not self._flushing:
            self._flush_soon()

    def _end_old(self, now: float) -> None:
        self._close_purses()
        good_until = inf
        for lease in self._active:
            if lease.ends <= now:
                lease.end()
            else:
                good_until = min(good_until, lease.ends)
        self._good_until = good_until


def _filled(lease: Lease) -> Exchanged:
    return Exchanged(lease, lease.give_back(lease.block), max(lease.block - lease.left, 0))


def _unused(lease: Lease) -> int:
    """What is to go back: all, if no call has spent of it since it was last looked at."""
    idle = lease.left == lease.seen
    lease.seen = lease.left
    return lease.give_back(0 if idle else lease.block)
