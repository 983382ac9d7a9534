"""Which calls leave a trace, and what stands in it."""

import asyncio

import msgspec
import pytest

from control.gateway.limits import Limits
from control.gateway.recording import tracing
from control.gateway.recording.tracing import Seen, is_sampled, recorded, why_kept
from control.gateway.routing.candidates import Candidate, EngineLoad, Figures
from control.gateway.routing.rules import Chosen, NoneReady
from control.gateway.waiting.rules import TooLate
from control.metering.records import Refused, line_of
from control.states import Outcome
from control.telemetry.traces import STAGES
from tests.gateway.place import chat, route
from tests.gateway.upstream import answered, error, streamed
from tests.gateway.waiting.test_calls import URGENT, busy, learn, waits

LOW = "req_0190000000007000800000000000" + "0001"
HIGH = "req_019000000000700080000000ffffffff"
FINE = Seen(Outcome.COMPLETE, 200, 0.2, 1.0, 0)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, ""),
        ({"outcome": Outcome.TRUNCATED}, "failed"),
        ({"outcome": Outcome.LOST}, "failed"),
        ({"outcome": Outcome.DEADLINE, "status": 504}, "failed"),
        ({"status": 502}, "failed"),
        ({"status": 400}, ""),  # an engine's own refusal: the tenant's mistake
        ({"outcome": Outcome.CLIENT_CLOSED, "status": 499}, ""),
        ({"first_token_seconds": 5.1}, "slow"),
        ({"first_token_seconds": None}, ""),
        ({"total_seconds": 61}, "slow"),
        ({"tries": 1}, "retried"),
        ({"tries": 1, "status": 502}, "failed"),
    ],
)
def test_a_call_is_kept_for_a_reason(changes, kept):
    assert why_kept(False, FINE._replace(**changes), Limits()) == kept


@pytest.mark.parametrize(
    ("call_id", "share", "sampled"),
    [(LOW, 0.01, True), (HIGH, 0.01, False), (HIGH, 1.0, True), (LOW, 0.0, False)],
)
def test_the_sample_is_drawn_by_the_calls_id(call_id, share, sampled):
    assert is_sampled(call_id, share) is sampled
    assert why_kept(sampled, FINE, Limits()) == ("sampled" if sampled else "")


def test_a_decision_that_is_too_long_says_so_and_the_line_fits():
    long = NoneReady("no", tuple(Figures(n, 1, 2, None) for n in range(1000)))
    records = recorded([TooLate(3.5, 2.0), long, long])
    assert records[0] == {
        "decision": "TooLate",
        "start_seconds": 3.5,
        "limit_seconds": 2.0,
        "expected_seconds": None,
    }
    assert records[1]["decision"] == "too long"
    assert len(msgspec.json.encode(records)) < 1000


def test_a_choice_is_told_with_the_candidates_figures_of_that_moment():
    figures = (Figures(7, 1, 8, EngineLoad(2, 0, 0.5, 10.0, 1)),)
    [record] = recorded([Chosen(Candidate(7, 8), "d", "least loaded", figures)])
    assert record == {
        "decision": "Chosen",
        "replica": 7,
        "deployment": "d",
        "why": "least loaded",
        "figures": [
            {
                "id": 7,
                "in_flight": 1,
                "slots": 8,
                "engine": {
                    "running": 2,
                    "waiting": 0,
                    "kv_ratio": 0.5,
                    "at": 10.0,
                    "own_in_flight": 1,
                },
            }
        ],
    }


async def test_a_sampled_calls_stages_come_in_order(place, engines):
    place.know(route(sample=1.0))
    await engines(streamed("a", "b"))
    await place.post(chat(stream=True))
    [closed] = place.closes()
    assert closed.trace.kept == "sampled"
    assert tuple(closed.trace.stages) == STAGES
    assert [one["decision"] for one in closed.trace.decisions] == ["Chosen"]
    ends = list(closed.trace.stages.values())
    assert ends == sorted(ends)
    assert ends[0] >= 0
    assert closed.trace_id == closed.call_id[4:]


PARENT = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"


@pytest.mark.parametrize(("share", "flags"), [(1.0, "03"), (0.0, "02")])
async def test_a_trace_begins_anew_at_the_border_and_the_callers_is_a_link(
    place, engines, share, flags
):
    place.know(route(sample=share))
    engine = await engines(error(500), answered())
    answer = await place.post(
        chat(), traceparent=f"00-{PARENT}-01", tracestate="a=1", baggage="tenant=x"
    )
    id_ = answer.headers["x-request-id"]
    assert answer.headers["traceresponse"] == f"00-{id_[4:]}-{id_[4:20]}-{flags}"
    [seen] = engine.seen
    assert f"traceparent: 00-{id_[4:]}-{id_[20:]}-{flags}\r\n" in seen.head
    for theirs in ("4bf92f35", "tracestate", "baggage", "tenant=x"):
        assert theirs not in seen.head
    [closed] = place.closes()
    assert (closed.trace.link, closed.trace.link_state) == (PARENT, "a=1")


async def test_a_parent_that_is_not_believed_leaves_no_link(place, engines):
    await engines(error(500))
    answer = await place.post(chat(), traceparent="00-zz-01", tracestate="a=1")
    assert answer.status == 502
    [closed] = place.closes()
    assert (closed.trace.link, closed.trace.link_state) == ("", "")


async def test_most_calls_leave_none_and_nothing_of_it_is_written(place, engines):
    place.know(route(sample=0.0))
    await engines(answered())
    await place.post(chat())
    [closed] = place.closes()
    assert closed.trace is None
    line = line_of(closed)
    assert not {name for name in (b"trace", b"tries", b"flags") if name in line}


async def test_a_second_try_is_told_with_what_the_first_one_cost(place, engines):
    place.know(route(sample=0.0))
    await engines(error(500))
    await engines(answered())
    place.push(0)
    for _ in range(8):
        await place.post(chat())
    retried = [closed for closed in place.closes() if closed.attempts == 2]
    assert retried
    for closed in retried:
        assert closed.trace.kept == "retried"
        [first] = closed.tries
        assert (first.replica_id, first.why) == (1, "upstream_error")
        assert 0 < first.until_us <= closed.trace.stages["settle"]
        assert closed.outcome == "complete"
        assert closed.trace.error == ""


async def test_a_failed_call_tells_its_error(place, engines):
    place.know(route(sample=0.0))
    await engines(error(500))
    assert (await place.post(chat())).status == 502
    [closed] = place.closes()
    assert (closed.trace.kept, closed.trace.error) == ("failed", "upstream_error")


async def test_a_refused_call_tells_why_and_is_counted_once(place):
    place.know(route(cold_start_seconds=0))
    assert (await place.post(chat())).status == 503
    assert place.refusals() == {"model_loading": 1}
    [traced] = [r for r in place.records() if isinstance(r, Refused) and r.trace]
    assert (traced.route, traced.status, traced.count) == ("chat", 503, 0)
    assert traced.trace.kept == tracing.REFUSED
    assert traced.trace.error == "model_loading"
    assert [one["decision"] for one in traced.trace.decisions] == ["NoneReady", "Candidates"]
    assert traced.trace.decisions[0]["reason"]


@pytest.mark.parametrize("who", ["first to wait", "behind others", "in vain", "by a limit"])
async def test_a_refused_call_tells_who_could_have_served_it(tmp_path, who):
    async with busy(tmp_path, waiting_calls=1) as place:
        if who == "by a limit":
            place.know(route(), scopes={"t:1": {"requests_per_minute": 1}})
        if who == "behind others":
            await waits(place, "before", key=URGENT)
        elif who == "first to wait":
            await learn(place, 60)
        call = asyncio.create_task(place.post(chat("late")))
        place.calls.append(call)
        if who == "in vain":
            await place.until(lambda: len(place.shared.waiting) == 1)
            place.push(11)
        if who == "by a limit":
            await call
            call = asyncio.create_task(place.post(chat("late")))
        refused = await call
        assert refused.status in (429, 503)
        traced = [r for r in place.records() if isinstance(r, Refused) and r.trace]
        last = traced[-1].trace.decisions[-1]
        assert last["decision"] == "Candidates"
        [one] = last["figures"]
        assert (one["id"], one["in_flight"], one["slots"]) == (1, 1, 1)


async def test_a_flood_of_refusals_leaves_few_traces(place):
    place.know(route(cold_start_seconds=0))
    for _ in range(30):
        await place.post(chat())
    traced = [r for r in place.records() if isinstance(r, Refused) and r.trace]
    seconds = {int(r.ended_at) for r in traced}
    assert len(traced) <= (len(seconds) + 1) * place.limits.refused_traces_per_second
    assert place.refusals() == {"model_loading": 30}


@pytest.mark.parametrize("share", [0.0, 1e-12, 0.01, 0.5, 1 - 2**-32, 1.0])
def test_a_share_of_all_ids_is_sampled_and_no_other(share):
    codes = share * 2**32
    for code in {0, 1, int(codes) - 1, int(codes), int(codes) + 1, 2**32 - 1}:
        if 0 <= code < 2**32:
            assert is_sampled(f"req_{code:032x}", share) is (code < codes)
