"""The answer of a call on the short way follows the record of its end."""

from tests.gateway.express.holding import held


async def test_an_answer_goes_out_when_its_end_is_written_down(place, engines, monkeypatch):
    call, asking, gate = await held(place, engines)
    write, seen = place.shared.outbox._write, []

    def watched(lines: list[bytes]) -> int:
        seen.append((call.ended, call.connection.call is call, not place.shared.calls))
        return write(lines)

    monkeypatch.setattr(place.shared.outbox, "_write", watched)
    gate.set()
    assert (await asking).status == 200
    assert seen == [(True, True, True)]


async def test_a_disk_that_takes_no_record_keeps_no_answer_back(place, engines, monkeypatch):
    _, asking, gate = await held(place, engines)
    monkeypatch.setattr(place.shared.outbox, "_write", lambda lines: 0)
    gate.set()
    assert (await asking).status == 200


async def test_whoever_leaves_before_the_answer_has_had_a_whole_call(place, engines, monkeypatch):
    call, asking, gate = await held(place, engines)
    write = place.shared.outbox._write

    def leaving(lines: list[bytes]) -> int:
        call.drain()
        call.sweep(call.want.ends_by)
        call.connection.connection_lost(None)
        return write(lines)

    monkeypatch.setattr(place.shared.outbox, "_write", leaving)
    gate.set()
    await place.until(lambda: place.closes())
    assert [close.outcome for close in place.closes()] == ["complete"]
    assert (call.connection.state, call.live.in_flight) == ("closing", 0)
    asking.cancel()
