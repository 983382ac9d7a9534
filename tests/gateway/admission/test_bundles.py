"""A purse changes who holds units, and neither what is granted nor what is settled."""

from hypothesis import given
from hypothesis import strategies as st

from control.gateway.admission.bundles import PURSE_CALLS, Bundle
from control.gateway.admission.leases import Lease
from control.gateway.admission.rules import CALL, COUNTS, INPUT, OUTPUT, Slots, checks_of

IN, OUT = "input_tokens_per_minute", "output_tokens_per_minute"
TENANT = {"requests_per_minute": 3000, IN: 60_000, "concurrent_calls": 1200}
KEYS = ({"requests_per_minute": 2000, OUT: 90_000}, {OUT: 50_000, "concurrent_calls": 900})


def two() -> tuple[Bundle, Bundle]:
    """Of two keys of one tenant, all leases full."""
    shared = [Lease(check, check.limit) for check in checks_of("t:1", TENANT)]
    bundles = []
    for number, limits in enumerate(KEYS):
        own = [Lease(check, check.limit) for check in checks_of(f"k:{number}", limits)]
        leases = [*shared, *own]
        for lease in leases:
            lease.left, lease.active, lease.room = lease.block, True, 10_000
        bundles.append(Bundle(tuple(lease.check for lease in leases), leases))
    return tuple(bundles)


def spend(bundle: Bundle, all_: tuple[Bundle, ...], tokens_in: int, tokens_out: int) -> bool:
    """As an exchange does it."""
    due: list[Lease] = []
    if bundle.spend(tokens_in, tokens_out, due):
        return True
    for one in all_:
        one.close(due)
    return bundle.spend(tokens_in, tokens_out, due)


class Plain:
    """The same units, counted for each call."""

    def __init__(self, bundles: tuple[Bundle, ...]) -> None:
        self.left = {lease: lease.left for bundle in bundles for lease in bundle.leases}
        self.change = dict.fromkeys(self.left, 0)

    def units(self, bundle: Bundle, tokens_in: int, tokens_out: int) -> dict[Lease, int]:
        size = {CALL: 1, INPUT: tokens_in, OUTPUT: tokens_out}
        return {x: size[COUNTS.get(x.check.limit, CALL)] for x in bundle.leases}

    def spend(self, bundle: Bundle, tokens_in: int, tokens_out: int) -> bool:
        units = self.units(bundle, tokens_in, tokens_out)
        fits = all(self.left[lease] >= size for lease, size in units.items())
        for lease, size in units.items() if fits else ():
            self.left[lease] -= size
        return fits

    def settle(self, bundle: Bundle, more_in: int, more_out: int) -> None:
        for lease, more in self.units(bundle, more_in, more_out).items():
            if isinstance(lease.check, Slots):
                self.left[lease] += 1
            elif lease.check.limit in COUNTS:
                self.change[lease] += more


steps = st.tuples(
    st.integers(0, 1),
    st.sampled_from(["call", "call", "call", "end", "close"]),
    st.sampled_from([0, 3, 40, 300]),
    st.integers(-40, 400),
)


@given(st.lists(steps, max_size=60))
def test_a_purse_grants_and_settles_what_its_leases_would(steps):
    both = two()
    plain, running, due = Plain(both), [0, 0], []
    for which, what, tokens, more in steps:
        bundle = both[which]
        if what == "call":
            granted = spend(bundle, both, tokens, 2 * tokens)
            assert granted is plain.spend(bundle, tokens, 2 * tokens)
            running[which] += granted
        elif what == "end" and running[which]:
            bundle.settle(more, -more, due)
            plain.settle(bundle, more, -more)
            running[which] -= 1
        elif what == "close":
            bundle.close(due)
        assert all(lease.left >= 0 for lease in plain.left)
    for bundle in both:
        bundle.close(due)
    assert {lease: lease.left for lease in plain.left} == plain.left
    assert {lease: lease.change for lease in plain.left} == plain.change
    running_in = [x.in_use for x in both[0].leases if isinstance(x.check, Slots)]
    assert running_in == [sum(running)]


def test_a_purse_leaves_half_to_those_who_share_its_leases():
    bundle, other = two()
    due: list[Lease] = []
    assert bundle.spend(30, 60, due)
    assert (bundle.leases[0].check.limit, bundle.leases[0].left) == ("requests_per_minute", 20)
    assert other.spend(30, 60, due)
    assert bundle.leases[0].left == 10
    assert bundle.leases[0] in due


def test_a_call_that_uses_much_more_than_was_thought_is_told_of_at_once():
    bundle, _ = two()
    due: list[Lease] = []
    assert bundle.spend(1, 1, due)
    bundle.settle(400, 0, due)
    assert not bundle.is_open
    assert [x.change for x in due if x.change] == [400]


def test_what_remains_is_told_with_what_is_in_the_purse():
    bundle, _ = two()
    room = 10_000 + 20  # where the limit is counted, and in the key's lease
    for spent in range(2 * PURSE_CALLS):
        requests, tokens = bundle.levels()
        assert requests.remaining == min(room - spent, 2000)
        assert tokens.remaining == 10_000 + 600 - 10 * spent
        assert b"x-ratelimit-remaining-tokens: %d\r\n" % tokens.remaining in bundle.lines()
        if spent == 20:
            break  # all of the lease
        assert spend(bundle, (bundle,), 10, 1)
        bundle.settle(0, 0, [])
