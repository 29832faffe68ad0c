"""The schedule is fixed by its seed, stays inside the run, and has exponential gaps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bakeoff.errors import LoadError
from loadtest.schedule import constant, poisson, shard, share

rates = st.floats(0.5, 500)
lengths = st.floats(0.1, 20)
seeds = st.integers(0, 2**32 - 1)


@given(rates, lengths, seeds)
def test_poisson_arrivals_ascend_inside_the_run(rate, run_s, seed):
    offsets = poisson(rate, run_s, seed)
    assert offsets.dtype == np.int64
    assert (np.diff(offsets) >= 0).all()
    assert ((offsets >= 0) & (offsets < run_s * 1e9)).all()


@given(rates, lengths, seeds)
def test_a_longer_run_begins_with_the_shorter_one(rate, run_s, seed):
    short, long = poisson(rate, run_s, seed), poisson(rate, 2 * run_s, seed)
    assert np.array_equal(short, long[: len(short)])


def test_seeds_differ_and_repeat():
    assert np.array_equal(poisson(100, 5, 7), poisson(100, 5, 7))
    assert not np.array_equal(poisson(100, 5, 7)[:10], poisson(100, 5, 8)[:10])


def test_gaps_are_exponential_with_the_rate():
    gaps_s = np.diff(poisson(200, 100, 1)) / 1e9
    assert stats.kstest(gaps_s, "expon", args=(0, 1 / 200)).pvalue > 0.01


def test_the_number_of_arrivals_is_poisson():
    counts = np.array([len(poisson(50, 2, seed)) for seed in range(400)])
    assert abs(counts.mean() - 100) < 4 * np.sqrt(100 / 400)
    assert 0.8 < counts.var(ddof=1) / 100 < 1.25


@pytest.mark.parametrize(("rate", "run_s", "expected"), [(4, 1, [0, 250, 500, 750]), (10, 0.25, [0, 100, 200])])
def test_constant_arrivals_are_equally_spaced(rate, run_s, expected):
    assert (constant(rate, run_s) // 1_000_000).tolist() == expected


@given(st.integers(0, 200), st.integers(1, 8))
def test_shards_partition_the_schedule(count, workers):
    offsets = np.arange(count, dtype=np.int64)
    parts = [shard(offsets, k, workers) for k in range(workers)]
    assert sorted(np.concatenate(parts).tolist()) == offsets.tolist()
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(st.integers(0, 1000), st.integers(1, 16))
def test_shares_add_up_and_differ_by_one_at_most(total, workers):
    shares = [share(total, k, workers) for k in range(workers)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(("rate", "run_s"), [(0, 1), (1, 0), (-1, 1), (1e9, 1e3), (float("nan"), 1)])
def test_an_impossible_schedule_is_refused(rate, run_s):
    with pytest.raises(LoadError, match="cannot schedule"):
        poisson(rate, run_s, 1)


def test_a_worker_that_does_not_exist_is_refused():
    with pytest.raises(LoadError, match="worker 2 of 2"):
        shard(constant(1, 3), 2, 2)
