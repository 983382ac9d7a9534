"""What the gateway's parent does beside its workers."""

import os
import threading

from control.gateway.process.parent import Parent


def test_who_ships_and_publishes_gives_way_to_workers(tmp_path):
    parent = Parent(worker_argv=[], sockets=[], home=tmp_path, metrics_port=0, drain_seconds=1)
    seen = []

    def act() -> None:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        parent._ended.set()

    thread = threading.Thread(target=parent._every, args=(0.0, act))
    thread.start()
    thread.join(30)
    own = os.getpriority(os.PRIO_PROCESS, 0)  # with which it starts them
    assert len(seen) == 1
    assert seen[0] > own
