"""Spans of kept calls go to an OpenTelemetry collector, if one is named; nobody waits for it."""

import logging
import queue
import threading
from collections.abc import Iterable

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from control.telemetry.spans import CLIENT, INTERNAL, SERVER, KeptCall, Span, spans_of

CALLS_WAITING_MAX = 2000
CALLS_AT_ONCE_MAX = 200
TIMEOUT_SECONDS = 5

_KINDS = {SERVER: SpanKind.SERVER, CLIENT: SpanKind.CLIENT, INTERNAL: SpanKind.INTERNAL}
_SAMPLED_RANDOM = TraceFlags(0x03)

log = logging.getLogger(__name__)
# It would tell of each try that failed, for as long as a collector is away. We tell of it once.
logging.getLogger(OTLPSpanExporter.__module__).setLevel(logging.CRITICAL)


class Exporter:
    """A thread with a bounded queue; `dropped` counts the calls that found it full or failed."""

    def __init__(self, endpoint: str, *, service: str = "weir-gateway") -> None:
        address = endpoint.rstrip("/")
        if not address.endswith("/v1/traces"):
            address += "/v1/traces"
        self.dropped = 0
        self._exporter = OTLPSpanExporter(endpoint=address, timeout=TIMEOUT_SECONDS)
        self._resource = Resource({"service.name": service})
        self._waiting: queue.Queue[KeptCall | None] = queue.Queue(CALLS_WAITING_MAX)
        self._said = False
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def put(self, calls: Iterable[KeptCall]) -> None:
        for call in calls:
            try:
                self._waiting.put_nowait(call)
            except queue.Full:
                self.dropped += 1

    def close(self) -> None:
        """What waits is sent, if the collector takes it in time."""
        try:
            self._waiting.put(None, timeout=TIMEOUT_SECONDS)
        except queue.Full:
            return
        self._thread.join(2 * TIMEOUT_SECONDS)
        self._exporter.shutdown()

    def _run(self) -> None:
        going_on = True
        while going_on:
            calls = [self._waiting.get()]
            while len(calls) < CALLS_AT_ONCE_MAX and not self._waiting.empty():
                calls.append(self._waiting.get())
            going_on = None not in calls
            self._send([call for call in calls if call])

    def _send(self, calls: list[KeptCall]) -> None:
        spans = [self._readable(span) for call in calls for span in spans_of(call)]
        try:
            good = not spans or self._exporter.export(spans) is SpanExportResult.SUCCESS
        except OSError as error:
            log.debug("traces could not be sent: %s", type(error).__name__)
            good = False
        if good:
            self._said = False
            return
        self.dropped += len(calls)
        if not self._said:
            log.warning("the trace collector takes nothing: %d calls dropped", len(calls))
        self._said = True

    def _readable(self, span: Span) -> ReadableSpan:
        parent = _context(span.trace_id, span.parent_id) if span.parent_id else None
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace_id, span.span_id),
            parent=parent,
            kind=_KINDS[span.kind],
            resource=self._resource,
            attributes=span.attributes,
            links=[_link(span)] if span.link else [],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=span.start_ns,
            end_time=span.end_ns,
        )


def _context(trace_id: str, span_id: str, *, remote: bool = False) -> SpanContext:
    return SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=remote,
        trace_flags=_SAMPLED_RANDOM,
    )


def _link(span: Span) -> Link:
    trace_id, _, parent_id = span.link.partition("-")
    # An attribute, for the exporter leaves out the trace state of links.
    state = {"tracestate": span.link_state} if span.link_state else {}
    return Link(_context(trace_id, parent_id, remote=True), state)
