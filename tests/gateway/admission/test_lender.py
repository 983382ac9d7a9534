"""A database that is away is said once, however many calls ask."""

import logging

from control.gateway.admission.lender import Away, Lender


def test_that_no_credit_can_be_asked_for_is_said_once(caplog):
    lender, answers = Lender(url="postgresql://127.0.0.1:9/none", owner="g1"), []
    for _ in range(3):
        lender.ask(lambda _: 1, answers.append, lambda act, answer: act(answer))
    with caplog.at_level(logging.WARNING):
        lender.stop(60)
    assert [type(answer) for answer in answers] == [Away] * 3
    assert len([one for one in caplog.messages if "no credit can be asked for" in one]) == 1
