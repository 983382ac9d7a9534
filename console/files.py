"""Files to download, streamed row after row in constant memory."""

from collections.abc import Iterator

from django.http import StreamingHttpResponse

from control.metering.exports import in_thread
from control.metering.exports.orders import TYPES, Order, checked, chunks, name_of


def file_of(order: Order) -> StreamingHttpResponse:
    """Refused before it begins, or not at all."""
    order = checked(order)
    return streamed(chunks(order), name_of(order), TYPES[order.format])


def streamed(
    pages: Iterator[bytes], name: str, content_type: str = TYPES["csv"]
) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        in_thread(pages),
        content_type=content_type,
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
