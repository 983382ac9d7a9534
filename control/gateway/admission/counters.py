"""Rates and calls at once, counted for all gateways in Valkey; alone with a share without it."""

import logging
from collections.abc import Callable

from control.gateway.admission import rules, scripts
from control.gateway.admission.bundles import Bundle, Taken
from control.gateway.admission.commands import SINCE, Commands
from control.gateway.admission.exchange import Exchange
from control.gateway.admission.rules import Check, Hold, Level, Rate, Refused, Slots, Used
from control.gateway.admission.valkey import Reply, ReplyError, Valkey, encode
from control.gateway.limits import Limits

log = logging.getLogger(__name__)

Answer = Taken | Refused
NOTHING_ASKED = Taken()


class Counters:
    """`take` answers through a callback, at once if there is nothing to ask.

    Most calls are granted from leases. A call that finds too little there gives them up, asks for
    itself, and lets the leases be filled again.
    """

    def __init__(
        self,
        url: str,
        *,
        processes: int,
        limits: Limits,
        clock: Callable[[], float],
        steps: scripts.Steps = scripts.STEPS,
    ) -> None:
        self.shared = False  # Valkey is there, and takes what we write
        self.valkey = Valkey(
            url,
            answer_seconds=limits.counters_seconds,
            on_connected=self._start,
            on_lost=self._lost,
            clock=clock,
        )
        self._processes = processes
        self._commands = Commands(steps, int(limits.lease_seconds * 1_000_000))
        self.exchange = Exchange(
            self.valkey, self._commands, limits=limits, clock=clock, on_failed=self._failed
        )
        self._clock = clock
        self._calls: dict[str, set[str]] = {}  # by scope: ids of calls that asked for their slot
        self._tats: dict[rules.Name, float] = {}  # local rates
        self._sweeps = 0
        self._began = False

    def take(self, call_id: str, hold: Hold, on_answer: Callable[[Answer], None]) -> None:
        if not hold.checks:
            return on_answer(NOTHING_ASKED)
        if not self.shared:
            return on_answer(self._take_locally(call_id, hold))
        if hold.personal:
            return self._ask(call_id, hold, None, on_answer)
        bundle = self.exchange.bundle_of(hold.checks)
        if self.spend(bundle, hold.input_tokens, hold.output_tokens):
            return on_answer(bundle.taken)
        return self._ask(call_id, hold, bundle, on_answer)

    def spend(self, bundle: Bundle, tokens_in: int, tokens_out: int) -> bool:
        """Of what this process holds already; False if somebody is to be asked."""
        if not bundle.checks:
            return True
        whole = self.shared and bundle.is_whole
        return whole and self.exchange.spend(bundle, tokens_in, tokens_out)

    def settle(self, call_id: str, hold: Hold, taken: Taken, used: Used) -> None:
        """Once, when the call has ended: its slots are free, its rates hold what it used.

        With Valkey away nothing is kept to be settled later: the leases there end by themselves,
        and the rates have refilled within a minute or two.
        """
        if taken.bundle:
            return self.exchange.settle(taken.bundle, *used.beyond(hold))
        for check in hold.checks:
            if isinstance(check, Slots):
                ids = self._calls.get(check.scope, set())
                ids.discard(call_id)
                if not ids:
                    self._calls.pop(check.scope, None)
        if not taken.shared:
            self._settle_locally(rules.corrections(hold, used))
        elif (command := self._commands.settle(call_id, hold, used)) and self.valkey.connected:
            self.valkey.send(command, self._on_settled)
        return None

    def sweep(self, now: float) -> None:
        """Once a second; leases are renewed each third time."""
        self.valkey.sweep(now)
        self._sweeps += 1
        if self.shared:
            renews = self._sweeps % 3 == 0
            self.exchange.sweep(now, renews=renews)
            if renews:
                self._renew(new=False)
                self._probe()
        elif self.valkey.connected:
            self._probe()
        if self._sweeps % 60 == 0:
            at = self._clock()
            self._tats = {name: tat for name, tat in self._tats.items() if tat > at}

    def gauges(self) -> dict[str, int]:
        return {"counters_shared": int(self.shared), "counters_degraded": int(not self.shared)}

    def close(self) -> None:
        if self.shared:
            self.exchange.give_up()
        self.valkey.close()

    # --- the connection ---

    def _start(self) -> None:
        """Connected, perhaps again: nothing is asked before what runs here is known there."""
        self.shared = True
        for script in self._commands.steps:
            self.valkey.send(encode("SCRIPT", "LOAD", script), _ignore)
        if not self._began:
            # A store that we have not seen before has forgotten nothing that we know of.
            self._began = True
            self.valkey.send(encode("SET", SINCE, 0, "NX"), _ignore)
        self._renew(new=True)
        self.exchange.restart()
        self._probe()

    def _probe(self) -> None:
        self.valkey.send(self._commands.probe(), self._on_probed)

    def _on_probed(self, reply: Reply) -> None:
        """It takes what we write again: what runs here is announced as on a new connection."""
        if isinstance(reply, ReplyError):
            self._failed(reply)
        elif not self.shared:
            self._start()

    def _lost(self) -> None:
        self.shared = False

    def _failed(self, error: ReplyError) -> None:
        """It refuses what we write, as a read-only replica does: as good as away."""
        if self.shared:
            log.warning("shared counters refuse what is written (%s): local shares count", error)
        self.shared = False

    def _renew(self, *, new: bool) -> None:
        for scope, ids in self._calls.items():
            self.valkey.send(self._commands.renew(scope, ids, new=new), _ignore)

    # --- asking ---

    def _ask(
        self, call_id: str, hold: Hold, bundle: Bundle | None, on_answer: Callable[[Answer], None]
    ) -> None:
        def on_reply(reply: Reply) -> None:
            if isinstance(reply, ReplyError):
                self._failed(reply)
                return on_answer(self._take_locally(call_id, hold))
            return on_answer(self._answer(call_id, hold, reply))

        free = self.exchange.give_back(bundle) if bundle else []
        self.valkey.send(self._commands.take(call_id, hold), on_reply)
        if free and bundle.fits(hold.input_tokens, hold.output_tokens):
            self.exchange.refill(free)

    def _answer(self, call_id: str, hold: Hold, reply: list[int]) -> Answer:
        rates = [check for check in hold.checks if isinstance(check, Rate)]
        levels = tuple(
            Level(check, reply[2 + 2 * i], reply[3 + 2 * i] / 1_000_000)
            for i, check in enumerate(rates)
        )
        number, wait = reply[0], reply[1]
        if not number:
            self._running(call_id, hold)
            return Taken(levels, shared=True)
        check = hold.checks[number - 1]
        requested = hold.units(check) if isinstance(check, Rate) else 1
        return Refused(check, None if wait < 0 else wait / 1_000_000, requested, levels)

    def _on_settled(self, reply: Reply) -> None:
        if isinstance(reply, ReplyError):
            self._failed(reply)

    # --- alone ---

    def _take_locally(self, call_id: str, hold: Hold) -> Answer:
        own = hold._replace(checks=tuple(self._share_of(check) for check in hold.checks))
        live = {
            check[:2]: len(self._calls.get(check.scope, ())) + self.exchange.in_use(check)
            for check in hold.checks
            if isinstance(check, Slots)
        }
        match rules.admit(own, self._tats | live, self._clock()):
            case rules.Admitted(levels=levels, tats=tats):
                self._tats |= tats
                self._running(call_id, hold)
                return Taken(levels)
            case Refused() as refused:
                return refused

    def _settle_locally(self, corrections: dict[rules.Name, tuple[Rate, int]]) -> None:
        at = self._clock()
        for name, (check, units) in corrections.items():
            gcra = self._share_of(check).gcra
            self._tats[name] = gcra.adjust(self._tats.get(name, 0.0), at, units)

    def _share_of(self, check: Check) -> Check:
        return rules.share_of(check, self._processes)

    def _running(self, call_id: str, hold: Hold) -> None:
        for check in hold.checks:
            if isinstance(check, Slots):
                self._calls.setdefault(check.scope, set()).add(call_id)


def _ignore(reply: Reply) -> None:
    """Nobody waits for this reply."""
