"""The memory of a host: what it has, within what its control groups leave (case P01)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from engines import host
from engines.host import ProcessorSeconds


@pytest.mark.parametrize(
    ("files", "own", "expected"),
    [
        ({"memory.max": "max", "memory.current": "5"}, "/", None),
        ({"memory.max": "1000000", "memory.current": "400000"}, "/", (1_000_000, 600_000)),
        (
            {
                "memory.max": "1000000",
                "memory.current": "400000",
                "memory.stat": "anon 1\ninactive_file 300000\n",
            },
            "/",
            (1_000_000, 900_000),
        ),
        (
            {
                "memory/a/memory.limit_in_bytes": "1000000",
                "memory/a/memory.usage_in_bytes": "700000",
                "memory/a/memory.stat": "inactive_file 1\ntotal_inactive_file 200000\n",
                "memory/memory.limit_in_bytes": "9223372036854771712",
                "memory/memory.usage_in_bytes": "800000",
            },
            "/a",
            (1_000_000, 500_000),
        ),
        ({"a/b/memory.max": "max", "a/memory.max": "7", "a/memory.current": "3"}, "/a/b", (7, 4)),
    ],
)
def test_memory_is_what_the_control_group_leaves(tmp_path, files, own, expected):
    placed = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in (placed | {"proc/self/cgroup": f"9:memory:{own}\n0::{own}\n"}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    total, free = host.memory_bytes(tmp_path)
    if expected:
        assert (total, free) == expected
    else:
        assert total == host.memory_bytes()[0]


@pytest.mark.parametrize(
    ("before", "ratio"),
    [(None, None), ((10.0, 100.0), 0.25), ((30.0, 200.0), None), ((40.0, 199.0), 0.0)],
)
def test_use_of_processors_is_of_the_time_since_the_reading_before(before, ratio):
    earlier = ProcessorSeconds(*before) if before else None
    assert ProcessorSeconds(35.0, 200.0).ratio_since(earlier) == ratio


def test_what_processors_did_is_told_to_every_thread_alike():
    first = host.processor_seconds()
    with ThreadPoolExecutor() as pool:
        second = pool.submit(host.processor_seconds).result()
    assert 0 < first.busy <= second.busy <= second.whole
