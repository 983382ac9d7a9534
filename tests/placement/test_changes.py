"""What failures taught, merged with what a version asks for."""

import pytest

from control.placement import changes
from control.placement.changes import Changes
from control.placement.memory import GIB, Sizes


@pytest.mark.parametrize(
    ("rows", "together"),
    [
        ([], Changes()),
        ([Changes(max_num_seqs=12)], Changes(max_num_seqs=12)),
        ([Changes(max_num_seqs=12), Changes(max_num_seqs=9)], Changes(max_num_seqs=9)),
        ([Changes(memory_percent=25), Changes(memory_percent=50)], Changes(memory_percent=50)),
        ([Changes(avoid=(2,)), Changes(avoid=(1,))], Changes(avoid=(1, 2))),
        (
            [Changes(max_model_len=384), Changes(max_num_batched_tokens=1024)],
            Changes(max_model_len=384, max_num_batched_tokens=1024),
        ),
    ],
)
def test_all_that_were_taught_hold_together(rows, together):
    assert changes.merged(rows) == together


def test_more_memory_is_booked_beside_the_kv_cache_which_never_shrinks():
    plain = Sizes(4 * GIB, GIB, 8 * GIB, GIB)
    more = Changes(memory_percent=25).enlarged(plain)
    assert (more.fixed_bytes, more.kv_bytes_min, more.kv_bytes) == (5 * GIB, GIB, 8 * GIB)


def test_what_is_stored_is_read_again_and_what_is_not_known_passed_over():
    some = Changes(max_model_len=384, avoid=(7,))
    assert some.stored() == {"max_model_len": 384, "avoid": (7,)}
    assert changes.read({"max_model_len": 384, "avoid": [7], "of a newer release": 1}) == some


def test_it_is_told_in_words():
    told = str(Changes(max_num_seqs=12, max_num_batched_tokens=6144, memory_percent=25))
    assert told == (
        "max_num_seqs 12, max_num_batched_tokens 6,144, 25 % more memory beside the KV cache"
    )
