"""Everything that runs on a clock, in one table, and the threads of the control worker."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from celery import Celery, shared_task
from celery.signals import worker_init, worker_ready, worker_shutting_down
from django.conf import settings
from django.db import connection
from django.utils import timezone
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from control.autoscaling import actions as autoscaling
from control.celery import app
from control.fleet import actions as fleet
from control.fleet.incidents import actions as incidents
from control.fleet.incidents import letters as incident_letters
from control.management.local.schema import SchemaIsOlder, refuse_older_schema
from control.metering import budgets, partitions, traces
from control.metering.alerts import actions as alerts
from control.metering.alerts import letters as alert_letters
from control.metering.cost import hours as cost_hours
from control.metering.drift import actions as drift
from control.metering.drift import attempts
from control.metering.exports import schedules
from control.metering.invoices import actions as invoices
from control.placement import actions as placement
from control.reconcile import counters, loop
from control.reconcile.probes import Probes
from control.routes.builder import Builder
from control.states import Part
from control.telemetry import points
from control.telemetry.outages import DATABASE_AWAY, Outage
from control.telemetry.store import Store
from control.webhooks import sending

RECONCILE = "weir.reconcile"
AUTOSCALE = "weir.autoscale"
ARCHIVE = "weir.archive_drained"
ROLL_UP = "weir.roll_up_telemetry"
PRUNE = "weir.prune_telemetry"
NEIGHBOURS = "weir.part_neighbours"
END_LEASES = "weir.end_credit_leases"
MONTHS = "weir.open_and_close_months"
EXPORTS = "weir.write_exports"
DRIFT = "weir.judge_drift"
READ_COUNTERS = "weir.read_external_counters"
MAKE_MONTHS = "weir.make_usage_months"
WATCH_BUDGETS = "weir.watch_budgets"
SEND_ALERTS = "weir.send_alerts"
WATCH_INCIDENTS = "weir.watch_incidents"
MAKE_COST = "weir.make_hours_of_cost"
MAKE_LATE_COST = "weir.make_late_hours_of_cost"

# name -> (task, every so many seconds). A tick that comes late is worth nothing: it expires.
CLOCK: dict[str, tuple[str, float]] = {
    "reconcile": (RECONCILE, 1.0),
    "sizes of deployments": (AUTOSCALE, 1.0),
    "drained deployments": (ARCHIVE, 2.0),
    "points of telemetry": (ROLL_UP, 10.0),
    "neighbours on cards": (NEIGHBOURS, 10.0),
    "old points": (PRUNE, 600.0),
    "budgets that are nearly used up": (WATCH_BUDGETS, 5.0),
    "incidents of the fleet": (WATCH_INCIDENTS, 5.0),
    "letters to URLs": (SEND_ALERTS, 5.0),
    "exports": (EXPORTS, 300.0),
    "months of tenants": (MONTHS, 300.0),
    "credit of hosts that are gone": (END_LEASES, 600.0),
    "counters of external engines": (READ_COUNTERS, 15.0),
    "books against engines' counters": (DRIFT, 600.0),  # each hour once, soon after it is stored
    "hours of cost": (MAKE_COST, 60.0),
    "hours of cost that changed late": (MAKE_LATE_COST, 1800.0),
    "months of usage to come": (MAKE_MONTHS, 3600.0),
}
EXPIRES_PERIODS = 2

log = logging.getLogger(__name__)


_no_database = Outage(log, "what runs on a clock waits for the database")


@contextmanager
def _database() -> Iterator[None]:
    """A task that does not find it has nothing to tell: the next one comes soon."""
    try:
        yield
        _no_database.is_over()
    except DATABASE_AWAY as error:
        _no_database.goes_on(error)
    finally:
        connection.close()


@shared_task(name=RECONCILE)
def reconcile() -> None:
    with _database():
        loop.tick()


@shared_task(name=AUTOSCALE)
def autoscale() -> None:
    store = Store()
    try:
        with _database():
            autoscaling.tick(timezone.now(), store)
    finally:
        store.close()


@shared_task(name=ARCHIVE)
def archive_drained() -> None:
    with _database():
        reason = "its last replica has ended"
        fleet.archive_drained(by=loop.BY, reason=reason, at=timezone.now())


_no_valkey = Outage(log, "no points are written while Valkey is away")


@shared_task(name=ROLL_UP)
def roll_up_telemetry() -> None:
    store = Store()
    try:
        with _database():
            points.roll_up(store, timezone.now())
        _no_valkey.is_over()
    except RedisError as error:
        _no_valkey.goes_on(error)
    finally:
        store.close()


@shared_task(name=PRUNE)
def prune_telemetry() -> None:
    with _database():
        points.prune(timezone.now())
        traces.prune(timezone.now())
        attempts.prune(timezone.now())
        drift.prune(timezone.now())
        incidents.prune(timezone.now())


@shared_task(name=NEIGHBOURS)
def part_neighbours() -> None:
    with _database():
        placement.part_neighbours(by=loop.BY, at=timezone.now())


@shared_task(name=WATCH_BUDGETS)
def watch_budgets() -> None:
    with _database():
        alerts.watch(timezone.now())


@shared_task(name=SEND_ALERTS)
def send_alerts() -> None:
    with _database():
        sending.send((incident_letters.BOX, alert_letters.BOX), timezone.now())


@shared_task(name=WATCH_INCIDENTS)
def watch_incidents() -> None:
    with _database():
        incidents.watch(timezone.now())


@shared_task(name=END_LEASES)
def end_credit_leases() -> None:
    with _database():
        budgets.release_ended(timezone.now())


@shared_task(name=MAKE_MONTHS)
def make_usage_months() -> None:
    with _database():
        partitions.make_coming(timezone.now())


@shared_task(name=DRIFT)
def judge_drift() -> None:
    with _database():
        drift.judge_hours(timezone.now())


@shared_task(name=READ_COUNTERS)
def read_external_counters() -> None:
    with _database():
        counters.read(timezone.now())


@shared_task(name=MAKE_COST)
def make_hours_of_cost() -> None:
    with _database():
        cost_hours.refresh(timezone.now())


@shared_task(name=MAKE_LATE_COST)
def make_late_hours_of_cost() -> None:
    """Of calls whose gateway was away for days."""
    with _database():
        cost_hours.refresh(timezone.now(), back=cost_hours.LATE_EVENTS)


@shared_task(name=EXPORTS)
def write_exports() -> None:
    with _database():
        schedules.tick(timezone.now())


@shared_task(name=MONTHS)
def open_and_close_months() -> None:
    with _database():
        invoices.tick(timezone.now())


def put_on_the_clock(celery: Celery) -> None:
    celery.conf.beat_schedule = {
        name: {
            "task": task,
            "schedule": seconds,
            "options": {
                "queue": settings.CELERY_TASK_DEFAULT_QUEUE,
                "expires": EXPIRES_PERIODS * seconds,
            },
        }
        for name, (task, seconds) in CLOCK.items()
    }


@dataclass
class Threads:
    """What runs in the control worker beside its tasks."""

    builder: Builder = field(default_factory=lambda: Builder(heard=_reconcile_soon))
    probes: Probes = field(default_factory=Probes)

    def start(self) -> None:
        self.builder.start()
        self.probes.start()

    def stop(self) -> None:
        self.builder.stop()
        self.probes.stop()


def _reconcile_soon(parts: set[str]) -> None:
    """A change of what is wanted or seen need not wait for the next tick."""
    if parts & {str(Part.ROUTES), str(Part.REPLICAS)}:
        try:
            app.send_task(
                RECONCILE,
                queue=settings.CELERY_TASK_DEFAULT_QUEUE,
                expires=EXPIRES_PERIODS,
                retry=False,
            )
        except OperationalError as error:
            log.warning("reconcile waits for its clock: %s", error)


_threads: list[Threads] = []


@worker_init.connect
def refuse_older(**_) -> None:
    """Celery swallows what a signal raises, but not this."""
    try:
        refuse_older_schema()
    except SchemaIsOlder as older:
        raise SystemExit(f"ERROR weir: {older}") from None
    finally:
        connection.close()


@worker_ready.connect
def begin(sender=None, **_) -> None:
    """Only in a worker that serves the control queue."""
    if settings.CELERY_TASK_DEFAULT_QUEUE in sender.app.amqp.queues.consume_from:
        _threads.append(Threads())
        _threads[-1].start()


@worker_shutting_down.connect
def end(**_) -> None:
    while _threads:
        _threads.pop().stop()


put_on_the_clock(app)
