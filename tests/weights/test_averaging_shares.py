import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.weights.merge.averaging_shares import (
    MAX_SHARE_ALL_LAPTOPS,
    MAX_SHARE_ONE_LAPTOP,
    WeightedOffer,
    contribution_weight,
    is_due,
    laptop_lag,
    offer_shares,
    round_weight,
)


def jobs(*steps: int, staleness: int = 0) -> list[WeightedOffer]:
    return [WeightedOffer(f"slot-{k}", n, staleness, laptop=False) for k, n in enumerate(steps)]


def test_a_single_early_job_of_four_moves_the_weights_by_a_quarter():
    offers = jobs(1000)
    full = round_weight(offers, 4, 0.0)
    assert offer_shares(offers, full)[0] == (0.25,)


def test_all_four_together_move_by_the_mean():
    offers = jobs(1000, 1000, 1000, 1000)
    assert offer_shares(offers, round_weight(offers, 4, 0.0))[0] == (0.25,) * 4


def test_more_environment_steps_weigh_more():
    offers = jobs(3000, 1000)
    assert offer_shares(offers, round_weight(offers, 2, 0.0))[0] == (0.75, 0.25)


def test_a_stale_contribution_is_discounted():
    assert contribution_weight(WeightedOffer("slot-0", 1000, 1, laptop=False)) == 800.0
    assert contribution_weight(WeightedOffer("slot-0", 1000, 4, laptop=False)) == 500.0


def test_two_rounds_of_one_job_do_not_shrink_the_others():
    offers = [*jobs(1000, 1000, 1000, 1000), WeightedOffer("slot-0", 1000, 0, laptop=False)]
    assert offer_shares(offers, round_weight(offers, 4, 0.0))[0] == (0.25,) * 5


def test_a_lone_job_moves_the_weights_all_the_way():
    offers = jobs(500)
    assert offer_shares(offers, round_weight(offers, 1, 0.0))[0] == (1.0,)


@given(
    st.lists(st.integers(1, 100_000), max_size=4),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 10_000_000)), min_size=1, max_size=20),
    st.integers(0, 8),
)
def test_laptops_never_have_more_than_their_share(steps, laptops, live):
    offers = jobs(*steps) + [WeightedOffer(f"laptop-{k}", n, 0, laptop=True) for k, n in laptops]
    shares = offer_shares(offers, round_weight(offers, live, 1000.0))[0]
    by_peer: dict[str, float] = {}
    for offer, share in zip(offers, shares, strict=True):
        assert share >= 0
        if offer.laptop:
            by_peer[offer.peer] = by_peer.get(offer.peer, 0.0) + share
    assert max(by_peer.values()) <= MAX_SHARE_ONE_LAPTOP + 1e-9
    assert sum(by_peer.values()) <= MAX_SHARE_ALL_LAPTOPS + 1e-9


@given(
    st.lists(st.integers(1, 100_000), min_size=1, max_size=4),
    st.lists(st.integers(1, 1 << 30), max_size=8),
    st.integers(0, 8),
)
def test_whatever_laptops_claim_the_jobs_keep_four_fifths_of_their_shares(steps, laptops, live):
    own = jobs(*steps)
    full = round_weight(own, live, 0.0)
    alone = offer_shares(own, full)[0]
    friends = [WeightedOffer(f"laptop-{k}", n, 0, laptop=True) for k, n in enumerate(laptops)]
    together = offer_shares(own + friends, full)[0]
    for before, after in zip(alone, together[: len(own)], strict=True):
        assert after >= (1.0 - MAX_SHARE_ALL_LAPTOPS) * before - 1e-9


@pytest.mark.parametrize(
    ("published", "live", "oldest_s", "laptops", "now"),
    [
        (0, 4, 0.0, 0, False),
        (2, 4, 0.0, 0, False),
        (3, 4, 0.0, 0, True),
        (1, 4, 9.9, 0, False),
        (1, 4, 10.0, 0, True),
        (1, 1, 0.0, 0, True),
        (0, 4, 0.0, 1, False),
        (0, 4, 10.0, 1, True),
        (0, 0, 10.0, 1, True),
    ],
)
def test_a_merge_is_due_when_all_but_one_have_published_or_one_has_waited(
    published, live, oldest_s, laptops, now
):
    assert (
        is_due(
            waiting_jobs=published,
            waiting_others=laptops,
            live_jobs=live,
            oldest_s=oldest_s,
            period_s=10.0,
        )
        is now
    )


@pytest.mark.parametrize(
    ("versions", "seconds", "lag"),
    [(3, 3600.0, 3), (300, 61.0, 2), (300, 60.0, 1), (5, 0.0, 0), (5, -7.0, 0), (0, 99.0, 0)],
)
def test_a_laptop_is_behind_by_versions_or_by_its_own_rhythm_whichever_is_less(
    versions, seconds, lag
):
    assert laptop_lag(versions, seconds) == lag
