"""Hints to a node's queue: each may be lost, late or doubled, and carries an id only."""

import logging

from kombu.exceptions import OperationalError

from control.celery import app

PREPARE = "weir.prepare_replica"
START = "weir.start_replica"
STOP = "weir.stop_replica"
FILES = "weir.look_at_files"
EXPIRES_SECONDS = 60  # an older hint says nothing that the node does not see by itself

log = logging.getLogger(__name__)


def prepare(replica_id: int, node: str) -> None:
    _send(PREPARE, replica_id, node)


def stop(replica_id: int, node: str) -> None:
    _send(STOP, replica_id, node)


def look_at_files(node: str) -> None:
    """Something was asked for ahead: a runtime or weights."""
    _send(FILES, node, node)


def queue_of(node: str) -> str:
    return f"node.{node}"


def _send(task: str, about: int | str, node: str) -> None:
    try:
        app.send_task(task, (about,), queue=queue_of(node), expires=EXPIRES_SECONDS, retry=False)
    except OperationalError as error:
        # The node looks at its rows each second, so nothing is lost but a moment.
        log.warning("no hint %s of %s: %s", task, about, error)
