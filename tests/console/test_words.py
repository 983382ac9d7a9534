"""Values in the words of a page."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from console import words

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (words.memory(None), "–"),
        (words.memory(0), "0 MiB"),
        (words.memory(512 * 2**20), "512 MiB"),
        (words.memory(int(139.7 * 2**30)), "139.7 GiB"),
        (words.count(None), "–"),
        (words.count(12345), "12,345"),
        (words.count(12_345_678), "12.3 M"),
        (words.count(5_400_000_000), "5.40 G"),
        (words.percent(0.0421), "4.2 %"),
        (words.percent(None), "–"),
        (words.percent(-0.5), "-50.0 %"),
        (words.percent(-1112.86), "below −999 %"),
        (words.percents("-50.0"), "-50.0 %"),
        (words.percents("-2998092.5"), "below −999 %"),
        (words.percents(None), "–"),
        (words.share(1, 4), 25),
        (words.share(9, 4), 100),
        (words.share(None, 4), 0),
        (words.money(None), "–"),
        (words.money(Decimal(0)), "0.00"),
        (words.money(Decimal("1234.5")), "1,234.50"),
        (words.money(Decimal("0.0000321")), "0.000032"),
        (words.money(Decimal("0.05")), "0.05"),
        (words.ago(None, NOW), "–"),
        (words.ago(NOW - timedelta(seconds=4), NOW), "<10 s"),
        (words.ago(NOW - timedelta(seconds=47), NOW), "40 s"),
        (words.ago(NOW - timedelta(minutes=12), NOW), "12 min"),
        (words.ago(NOW - timedelta(hours=30), NOW), "30 h"),
        (words.ago(NOW - timedelta(days=5), NOW), "5 d"),
        (words.duration(timedelta(seconds=3)), "3 s"),
        (words.spaced("requests_per_minute"), "requests per minute"),
        (words.quoted("\nQuestion: “x”"), '"\\nQuestion: “x”"'),
        (words.of("b", {"a": 1}), None),
    ],
)
def test_values_are_said_in_words(written, said):
    assert written == said
