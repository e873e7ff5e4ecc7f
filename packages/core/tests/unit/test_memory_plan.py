"""Planning of temporaries: nothing that is alive at once overlaps, and little more than the lower bound is
used."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiny_core.engine.memory_plan import Lifetime, lower_bound, plan

_lifetimes = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(0, 30), st.integers(0, 10)).map(
        lambda t: Lifetime(t[0], t[1], t[1] + t[2])
    ),
    max_size=40,
)


@given(_lifetimes)
def test_what_is_alive_at_once_does_not_overlap(lifetimes: list[Lifetime]) -> None:
    offsets, total = plan(lifetimes)
    for i, (a, at) in enumerate(zip(lifetimes, offsets, strict=True)):
        assert at % 128 == 0 and at + a.nbytes <= total
        for b, bt in list(zip(lifetimes, offsets, strict=True))[:i]:
            if a.first <= b.last and b.first <= a.last:
                assert at + a.nbytes <= bt or bt + b.nbytes <= at
    assert total >= lower_bound(lifetimes)


def test_a_chain_needs_two_buffers() -> None:
    chain = [Lifetime(1024, i, i + 1) for i in range(100)]
    assert plan(chain)[1] == 2048


def test_activations_of_a_network_and_its_gradient_stay_near_the_lower_bound() -> None:
    layers = 20
    sizes = [(100_000 >> (i // 3)) + 1000 * i for i in range(layers)]
    kept = [Lifetime(n, i, 2 * layers - i) for i, n in enumerate(sizes)]
    gradients = [Lifetime(n, 2 * layers - i - 1, 2 * layers - i) for i, n in enumerate(sizes)]
    assert plan(kept + gradients)[1] <= lower_bound(kept + gradients) * 1.1
