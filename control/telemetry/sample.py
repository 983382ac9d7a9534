"""Reads engines once; what they say becomes samples."""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from control.telemetry import rules
from control.telemetry.messages import ReplicaSample
from control.telemetry.pages import Pages, Unanswered
from control.telemetry.rules import Reading
from engines.spec import EngineLoad

TIMEOUT_SECONDS = 2.0
OK = 200
PAGE_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True)
class EngineAddress:
    """Where a replica's engine answers /metrics, and how that page is read."""

    replica_id: int
    label: str  # deployment#generation
    url: str  # without a path: http://127.0.0.1:18000
    api_key: str
    parse: Callable[[str], EngineLoad]


@dataclass(frozen=True)
class Unread:
    """Why an engine could not be read."""

    reason: str


class EngineReader:
    """Reads engines one after the other and remembers of each the reading before."""

    def __init__(self, pages: Pages | None = None):
        self._pages = pages or Pages(TIMEOUT_SECONDS)
        self._before: dict[int, Reading] = {}
        self._samples: dict[int, ReplicaSample] = {}

    def __enter__(self) -> "EngineReader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pages.close()

    def read(self, engine: EngineAddress, at: float) -> ReplicaSample | Unread:
        """One GET of /metrics. Rates need two readings: the first has none."""
        page = read_page(self._pages, engine.url, engine.api_key)
        if isinstance(page, Unread):
            return page
        now = Reading(at, engine.parse(page))
        sample = rules.replica_sample(
            engine.replica_id, engine.label, now, self._before.get(engine.replica_id)
        )
        self._before[engine.replica_id] = now
        self._samples[engine.replica_id] = sample
        return sample

    def load(self, replica_id: int) -> EngineLoad | None:
        """The last reading itself, with its counters."""
        reading = self._before.get(replica_id)
        return reading.load if reading else None

    def busy_ratio(self, replica_id: int) -> float:
        """Of the time between its last two readings, the part with a running call."""
        sample = self._samples.get(replica_id)
        return sample.busy_ratio or 0.0 if sample else 0.0

    def keep_only(self, replica_ids: set[int]) -> None:
        """Forget engines that are gone."""
        for gone in set(self._before) - replica_ids:
            self._before.pop(gone, None)
            self._samples.pop(gone, None)


def read_page(pages: Pages, url: str, api_key: str) -> str | Unread:
    """The engine's /metrics as text, within a limit."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        page = pages.get(url.removeprefix("http://"), "/metrics", headers, PAGE_BYTES_MAX)
    except Unanswered as error:
        return Unread(f"{error} at /metrics")
    if page.status != OK:
        return Unread(f"/metrics answered {page.status}")
    if len(page.body) > PAGE_BYTES_MAX:
        return Unread(f"/metrics is larger than {PAGE_BYTES_MAX} bytes")
    return page.body.decode(errors="replace")
