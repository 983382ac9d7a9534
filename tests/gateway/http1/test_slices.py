"""What is done to many at once each second holds nothing else up."""

import asyncio

from control.gateway.http1.slices import in_slices


async def test_others_have_their_turn_between_two_slices():
    done = []
    in_slices(done.append, tuple(range(5)), 2)
    assert done == [0, 1]
    asyncio.get_running_loop().call_soon(done.append, "another")
    await asyncio.sleep(0)
    assert done == [0, 1, 2, 3, "another"]
    await asyncio.sleep(0)
    assert done == [0, 1, 2, 3, "another", 4]


def test_few_are_done_now_and_need_no_loop():
    done = []
    in_slices(done.append, (1, 2), 2)
    assert done == [1, 2]
