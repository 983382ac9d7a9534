"""Reconcile, a node and real stub engines in one process, step by step."""

import time

import httpx
from django.conf import settings

from control.fleet import node as nodes
from control.fleet.watch import Watch
from control.models import Deployment, Replica, Reservation
from control.models.sealing import unseal
from control.reconcile import loop
from control.states import ReservationState
from engines import supervisor
from tests.fleet.rows import a_deployment, a_version
from tests.threads import HANG_SECONDS


class World:
    def __init__(self):
        self.watch = Watch(nodes.join(settings.WEIR_NODE_NAME))

    def wants(self, name="d", *, wanted=1, **arguments):
        version = a_version(f"m-{name}", engine={"kind": "stub"}, arguments=arguments)
        return a_deployment(name, version=version, wanted=wanted)

    def step(self):
        """One second of the platform, as fast as it goes."""
        nodes.heartbeat(self.watch.node)
        self.watch.read_devices()
        loop.tick()
        for replica_id in self.watch.launches():
            self.watch.look(replica_id)

    def until(self, holds, what):
        deadline = time.monotonic() + HANG_SECONDS
        while not (found := holds()):
            assert time.monotonic() < deadline, f"{what}; {self.told()}"
            self.step()
            time.sleep(0.02)
        return found

    def until_state(self, state, generation=1, deployment="d"):
        rows = Replica.objects.filter(
            deployment__name=deployment, generation=generation, state=state
        )
        return self.until(rows.first, f"no {deployment}#{generation} that is {state}")

    def restart_node(self):
        """A new worker knows nothing but the database and the disk."""
        self.watch.stop()
        self.watch = Watch(nodes.join(settings.WEIR_NODE_NAME))

    def told(self):
        rows = Replica.objects.order_by("pk")
        said = [f"{row} {row.state}: {row.reason} [{row.log_tail[-300:]}]" for row in rows]
        return "; ".join([*said, *Deployment.objects.values_list("note", flat=True)])

    def held(self):
        return Reservation.objects.filter(state=ReservationState.HELD)

    def call(self, replica, path="/v1/completions", **body):
        key = unseal(replica.engine_key)
        url = f"http://{replica.host}:{replica.port}{path}"
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.post(url, json=body, headers=headers, timeout=HANG_SECONDS, trust_env=False)

    def script(self, replica, times=1, **script):
        self.call(replica, "/stub/script", script=script, times=times).raise_for_status()

    def make_ready_for(self, replica, **fields):
        Replica.objects.filter(pk=replica.pk).update(**fields)

    def end(self):
        for folder in (settings.WEIR_HOME / "engines").glob("replica-*"):
            supervisor.stop(folder, 0)
        self.watch.stop()
