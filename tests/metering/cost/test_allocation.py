"""Busy time goes to calls, what nobody used to whom the pool says; nothing is lost or doubled."""

from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from control.metering.cost.allocation import (
    IdlePolicy,
    PoolPolicy,
    allocate_busy,
    spread,
)
from control.metering.cost.rules import round_half_up

PICO = 10**12
HOUR = 3_600_000_000
DAY_PICO = 50_000 * PICO // 30
USED_HOURS = {"A": 16, "B": 22, "C": 2}  # prefill and decode of the worked day


def fen(pico: int) -> str:
    return str(round_half_up(Fraction(pico, PICO), 2))


def worked_day() -> tuple[dict, int]:
    """Of 192 device hours 40 were busy: what each used, and what nobody did."""
    used = allocate_busy(DAY_PICO * 40 // 192, USED_HOURS)
    return used, DAY_PICO - sum(used.values())


def test_the_worked_day_in_direct_cost_and_idle():
    used, idle = worked_day()
    shown = {name: fen(cost) for name, cost in used.items()}
    assert shown == {"A": "138.89", "B": "190.97", "C": "17.36"}
    assert fen(idle) == "1319.44"


def test_the_worked_day_proportional_sums_to_1666_67():
    used, idle = worked_day()
    given_out = spread(idle, used, {}, PoolPolicy())
    assert {name: fen(cost) for name, cost in given_out.to.items()} == {
        "A": "527.78",
        "B": "725.69",
        "C": "65.97",
    }
    whole = {name: fen(used[name] + given_out.to[name]) for name in used}
    assert whole == {"A": "666.67", "B": "916.67", "C": "83.33"}
    assert sum(map(Decimal, whole.values())) == Decimal("1666.67")
    assert given_out.unallocated == 0
    assert sum(used.values()) + sum(given_out.to.values()) == DAY_PICO


def test_the_worked_day_unallocated_leaves_idle_with_the_operator():
    used, idle = worked_day()
    left = spread(idle, used, {}, PoolPolicy(IdlePolicy.UNALLOCATED))
    assert (sum(left.to.values()), fen(left.unallocated)) == (0, "1319.44")


def test_at_practical_capacity_tenants_pay_for_a_part_of_idle():
    used, idle = worked_day()
    left = spread(idle, used, {}, PoolPolicy(IdlePolicy.UNALLOCATED, Fraction(4, 5)))
    assert fen(used["A"] + left.to["A"]) == "173.61"  # 138.89 / 0.8
    assert sum(left.to.values()) + left.unallocated == idle


def test_reserved_idle_is_paid_by_guarantees_used_or_not():
    used, idle = worked_day()
    left = spread(idle, used, {"A": 2, "D": 6}, PoolPolicy(IdlePolicy.RESERVED))
    assert {name: fen(cost) for name, cost in left.to.items()} == {"A": "329.86", "D": "989.58"}
    nobody = spread(idle, used, {}, PoolPolicy(IdlePolicy.RESERVED))
    assert nobody.unallocated == idle


def test_nobody_shares_a_time_without_calls():
    assert allocate_busy(8, {}) == {}


keys = st.sampled_from("abcdef")


@given(busy=st.integers(0, HOUR), weights=st.dictionaries(keys, st.integers(0, 10**25), max_size=6))
def test_any_calls_share_the_busy_time_whole(busy, weights):
    parts = allocate_busy(busy, weights)
    assert sum(parts.values()) == (busy if any(weights.values()) else 0)


@given(
    overhead=st.integers(0, 10**20),
    used=st.dictionaries(keys, st.integers(0, 10**20), max_size=6),
    reserved=st.dictionaries(keys, st.integers(0, 8), max_size=6),
    idle=st.sampled_from(list(IdlePolicy)),
    practical=st.fractions(Fraction(1, 10), 1),
)
def test_every_policy_gives_out_or_keeps_the_whole(overhead, used, reserved, idle, practical):
    left = spread(overhead, used, reserved, PoolPolicy(idle, practical))
    assert sum(left.to.values()) + left.unallocated == overhead
    assert left.unallocated >= 0
