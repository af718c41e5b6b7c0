"""When leases are renewed, and who may judge others (R-22)."""

from rota.rules.liveness import LEASE, RENEW_EVERY, Renewals, may_judge, next_renewal, renewed

LASTS = LEASE.total_seconds()
EVERY = RENEW_EVERY.total_seconds()


def test_the_first_renewal_is_due_at_once_r_22():
    """R-22."""
    assert next_renewal(None, refused=False, at=7.0) == 7.0


def test_a_lease_is_renewed_three_times_while_it_lasts_r_22():
    """R-22: one renewal that fails costs nobody its life."""
    assert LASTS / EVERY == 3
    assert next_renewal(Renewals(0.0, 40.0), refused=False, at=41.0) == 40.0 + EVERY


def test_a_refused_renewal_is_tried_again_soon_but_not_at_once_r_22():
    """R-22: without a busy loop."""
    assert 0 < next_renewal(Renewals(0.0, 0.0), refused=True, at=10.0) - 10.0 < EVERY


def test_who_has_just_begun_judges_nobody_r_22():
    """R-22."""
    series = renewed(None, 100.0)
    assert not may_judge(None, 100.0)
    assert not may_judge(series, 100.0)


def test_who_renewed_for_as_long_as_a_lease_lasts_may_judge_r_22():
    """R-22."""
    series = None
    for at in (0.0, EVERY, 2 * EVERY, 3 * EVERY):
        series = renewed(series, at)
    assert may_judge(series, 3 * EVERY)


def test_after_an_outage_of_the_database_nobody_is_judged_until_all_could_renew_r_22():
    """R-22: all leases are over then, and nobody is lost."""
    series = renewed(Renewals(0.0, 300.0), 300.0 + LASTS + 1)
    assert not may_judge(series, 300.0 + LASTS + 1)
    assert not may_judge(series, 300.0 + 2 * LASTS)
    for step in range(1, 4):
        series = renewed(series, 300.0 + LASTS + 1 + step * EVERY)
    assert may_judge(series, 300.0 + 2 * LASTS + 1)


def test_who_cannot_renew_now_judges_nobody_r_22():
    """R-22: it may be the one that is cut off."""
    assert not may_judge(Renewals(0.0, 300.0), 300.0 + 2 * EVERY + 1)
