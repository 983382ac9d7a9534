"""What operators learn of a judge, and of the calls that it holds back."""

from tests.gateway.calls.test_moderation import CLEAN, NO_VERDICT, says
from tests.gateway.place import chat
from tests.gateway.upstream import answered, streamed


async def test_a_judge_that_fails_is_in_the_log_once_and_once_that_it_is_back(
    place, engines, judge, caplog
):
    await engines(answered())
    failing = NO_VERDICT["an error"]
    await judge(failing, failing, says(CLEAN), says(CLEAN), says(CLEAN))

    def said() -> list[str]:
        return [r.message for r in caplog.records if r.name == "control.gateway.judges"]

    for _ in range(3):
        await place.post(chat())
    [gone] = said()
    assert "does not answer" in gone
    assert "/judge" not in gone  # an address may hold secrets
    place.push(11)
    for _ in range(2):
        await place.post(chat())
    assert "answers again" in said()[1]
    assert len(said()) == 2


async def test_the_pace_of_windows_is_not_an_engines(place, engines, judge):
    await engines(streamed(*"abcd"))
    await judge(says(CLEAN), before=False, after=True)
    await place.post(chat(stream=True))
    counters = str(place.shared.tally.counters)
    assert "ttft_seconds_count" in counters
    assert "tpot_seconds" not in counters
