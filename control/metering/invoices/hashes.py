"""The hash of an invoice's rows, which shows that they are what they were. Pure."""

import hashlib
from collections.abc import Iterable, Sequence


def rows_hash(rows: Iterable[Sequence[object]]) -> str:
    """Of the rows in their sorted order, as text: whoever has the rows can compute it."""
    return texts_hash(sorted(row_text(row) for row in rows))


def row_text(row: Iterable[object]) -> str:
    return "\t".join("" if cell is None else str(cell) for cell in row)


def texts_hash(texts: Iterable[str]) -> str:
    """Of texts that are sorted already, one after another."""
    digest, between = hashlib.sha256(), ""
    for text in texts:
        digest.update(f"{between}{text}".encode())
        between = "\n"
    return digest.hexdigest()
