"""What a host with cards tells of its RAM."""

from datetime import UTC, datetime, timedelta

import psutil
import pytest

from control.fleet import ram
from control.models import Node
from tests.fleet.rows import a_node

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.mark.django_db
def test_it_is_told_every_few_seconds_and_not_with_each_reading_of_its_cards():
    teller, read = ram.Teller(a_node(at=AT)), []
    for second in range(11):
        teller.tell(AT + timedelta(seconds=second))
        read.append((Node.objects.get().memory_read_at - AT).total_seconds())
    assert read == [0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 10]
    assert 0 < Node.objects.get().memory_free_bytes <= psutil.virtual_memory().total
