"""The null server's queue answers when a single first-come-first-served server would."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from loadtest.nullqueue import NullQueue, Stall
from loadtest.schedule import poisson


def test_waiting_follows_a_hand_made_example():
    queue = NullQueue(service_ns=10)
    assert [queue.completion(t) for t in (100, 100, 105, 140)] == [(100, 110), (110, 120), (120, 130), (140, 150)]


def test_a_stall_holds_what_arrives_and_lengthens_what_runs():
    queue = NullQueue(service_ns=10, stall=Stall(after_ns=5, length_ns=100))
    assert [queue.completion(t) for t in (1000, 1050, 1200)] == [(1000, 1110), (1110, 1120), (1200, 1210)]


def test_a_stall_holds_even_work_that_takes_no_time():
    queue = NullQueue(service_ns=0, stall=Stall(after_ns=5, length_ns=100))
    assert [queue.completion(t)[1] for t in (1000, 1005, 1104, 1105)] == [1000, 1105, 1105, 1105]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=50), st.integers(0, 50))
def test_service_never_overlaps_nor_idles_while_work_waits(gaps, service):
    queue, arrivals = NullQueue(service), np.cumsum(gaps).tolist()
    served = [queue.completion(t) for t in arrivals]
    ends = [0, *(end for _, end in served)]
    assert all(begin == max(t, before) for t, (begin, _), before in zip(arrivals, served, ends, strict=False))


def test_mean_wait_under_poisson_arrivals_is_pollaczek_khinchine():
    service_s, rate = 0.010, 60.0
    load = rate * service_s
    expected_s = load * service_s / (2 * (1 - load))
    queue = NullQueue(int(service_s * 1e9))
    waits = np.array([queue.completion(int(t))[0] - t for t in poisson(rate, 10_000, seed=1)]) / 1e9
    batches = waits[: len(waits) // 100 * 100].reshape(100, -1).mean(axis=1)
    assert abs(waits.mean() - expected_s) < 4 * batches.std(ddof=1) / 10


def test_the_share_that_does_not_wait_is_one_minus_the_load():
    queue = NullQueue(10_000_000)
    arrivals = poisson(60, 10_000, seed=2)
    waits = np.array([queue.completion(int(t))[0] - t for t in arrivals])
    assert abs((waits == 0).mean() - 0.4) < 0.01
