"""The rate search finds a known limit and confirms it with a fresh seed."""

import pytest

from benchmarks.search import TOLERANCE, highest_rate_per_s, probe_s


@pytest.mark.parametrize("limit", [3.0, 37.0, 64.0, 500.0, 5000.0])
def test_a_sharp_limit_is_found_from_below_within_the_tolerance(limit):
    held = highest_rate_per_s(lambda rate, _: rate <= limit, 64.0)
    assert held <= limit <= held * (1 + TOLERANCE) ** 2


def test_a_server_that_holds_nothing_has_no_rate():
    assert highest_rate_per_s(lambda *_: False, 64.0) is None


def test_a_steady_rate_is_confirmed_on_a_second_seed():
    seen = []

    def passes(rate, seed):
        seen.append((rate, seed, rate <= 100))
        return rate <= 100

    held = highest_rate_per_s(passes, 64.0)
    assert len({seed for rate, seed, ok in seen if rate == held and ok}) >= 2
    assert len({seed for _, seed, _ in seen}) == len(seen)


def test_a_rate_that_passed_by_luck_is_stepped_down_until_a_fresh_seed_holds():
    assert 55 < highest_rate_per_s(lambda rate, seed: rate <= 60 or (seed == 1 and rate < 70), 64.0) <= 60


def test_slow_rates_get_longer_probes_up_to_a_bound():
    assert probe_s(1000, 5) == 5
    assert probe_s(60, 5) == 10
    assert probe_s(2, 5) == 15
