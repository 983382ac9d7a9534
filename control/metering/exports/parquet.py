"""Parquet in constant memory: rows come in pages, a row group goes out when it is full."""

import io
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyarrow import csv
from pyarrow import parquet as pq

GROUP_ROWS = 100_000
COMPRESSION = "zstd"


class _Chunks(io.RawIOBase):
    """What the writer has written since one last took it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data) -> int:
        self.parts.append(bytes(data))
        self.size += len(self.parts[-1])
        return len(self.parts[-1])

    def take(self) -> bytes:
        taken, self.parts = b"".join(self.parts), []
        return taken


def from_csv(schema: pa.Schema, pages: Iterable[bytes]) -> Iterator[bytes]:
    """Pages of CSV without a header, as COPY writes them: an empty cell is null, "" is a text."""
    return from_tables(schema, (_table(schema, page) for page in pages))


def from_tables(schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[bytes]:
    chunks, waiting, rows = _Chunks(), [], 0
    # One row group is of so many rows, however large the pages are: the same rows, the same bytes.
    with pq.ParquetWriter(chunks, schema, compression=COMPRESSION, version="2.6") as writer:
        for table in tables:
            waiting.append(table)
            rows += table.num_rows
            while rows >= GROUP_ROWS:
                whole = pa.concat_tables(waiting)
                writer.write_table(whole.slice(0, GROUP_ROWS), row_group_size=GROUP_ROWS)
                waiting, rows = [whole.slice(GROUP_ROWS)], rows - GROUP_ROWS
            if chunk := chunks.take():
                yield chunk
        if rows:
            writer.write_table(pa.concat_tables(waiting), row_group_size=GROUP_ROWS)
    yield chunks.take()


def _table(schema: pa.Schema, page: bytes) -> pa.Table:
    return csv.read_csv(
        pa.BufferReader(page),
        read_options=csv.ReadOptions(column_names=schema.names, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
