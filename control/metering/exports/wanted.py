"""Which files there are, and what a schedule of them may ask for. Pure."""

from dataclasses import dataclass

from control import checks
from control.metering.exports.schedule_rules import EVERY, MONTH

FOCUS_VERSIONS = ("1.2", "1.4")
VERSION = "1.4"
USAGE, FOCUS, COSTS = "usage", "focus", "costs"
SCHEMA, INVOICE = "focus-schema", "invoice"
TABLES = ("csv", "parquet")
FORMATS = {
    USAGE: TABLES,
    FOCUS: TABLES,
    COSTS: TABLES,
    SCHEMA: ("json",),
    INVOICE: ("csv",),
}
ON_A_CLOCK = (USAGE, FOCUS, COSTS)
FOLDER, BUCKET = "file", "s3"
DESTINATION_CHARACTERS_MAX = 400


@dataclass(frozen=True)
class ScheduleWanted:
    """A file of each month once it is closed; or, each day, of the month that runs."""

    name: str
    what: str
    destination: str
    format: str = TABLES[0]
    version: str = VERSION
    tenant: str = ""
    every: str = MONTH


def problems(wanted: ScheduleWanted) -> list[checks.Problem]:
    return [
        *checks.name("name", wanted.name),
        *checks.one_of("what", wanted.what, ON_A_CLOCK),
        *checks.one_of("format", wanted.format, FORMATS.get(wanted.what, TABLES)),
        *checks.one_of("version", wanted.version, FOCUS_VERSIONS),
        *checks.one_of("every", wanted.every, EVERY),
        *_of_destination(wanted.destination),
    ]


def _of_destination(destination: str) -> list[checks.Problem]:
    scheme, mark, place = destination.partition("://")
    is_odd = not mark or not destination.isprintable() or set("?#\\ ") & set(destination)
    if is_odd or scheme not in (FOLDER, BUCKET) or len(destination) > DESTINATION_CHARACTERS_MAX:
        what = f"{destination!r} is no place: write file:///folder or s3://bucket/folder"
        return [checks.Problem("destination", what)]
    if (scheme == FOLDER and not place.startswith("/")) or ".." in place:
        return [checks.Problem("destination", "is no absolute folder, as in file:///var/exports")]
    if scheme == BUCKET and not place.partition("/")[0]:
        return [checks.Problem("destination", "names no bucket, as in s3://bucket/folder")]
    return []
