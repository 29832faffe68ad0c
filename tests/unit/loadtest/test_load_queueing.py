"""Latency from the due time agrees with queueing theory and shows a server's stall whole."""

import numpy as np
import pytest

from loadtest.generator import Generator
from loadtest.nullserver import NullServer
from loadtest.plan import RunSpec
from loadtest.schedule import poisson
from loadtest.timings import latencies_s

SERVICE_S, RATE, RUN_S, SEED = 0.020, 30.0, 12.0, 4
ATTEMPTS = 3
OVERHEAD_S = 0.004
"""Most that generator, loopback and null server together may add to a mean latency."""


def lindley_s(offsets, service_s):
    """Return the exact sojourn of each arrival at one server: W[k+1] = max(0, W[k] + service - gap)."""
    waits = [0.0]
    for gap in np.diff(offsets) / 1e9:
        waits.append(max(0.0, waits[-1] + service_s - gap))
    return np.array(waits) + service_s


@pytest.fixture(scope="module")
def measured_s():
    """Return the latencies of the least disturbed of a few runs: what else the machine does can only add to them."""
    exact_s = lindley_s(poisson(RATE, RUN_S, SEED), SERVICE_S)
    spec = RunSpec(run=0, arm="m", block=0, position=0, seed=SEED, rate_per_s=RATE, run_s=RUN_S, timeout_s=10)
    found = []
    with NullServer(SERVICE_S) as server, Generator(server.base_url) as generator:
        for _ in range(ATTEMPTS):
            found.append(latencies_s(generator.run(spec).frame))
            if (found[-1] - exact_s).mean() < OVERHEAD_S:
                break
    return min(found, key=np.mean)


def test_each_latency_is_the_exact_sojourn_of_its_arrival(measured_s):
    excess_s = measured_s - lindley_s(poisson(RATE, RUN_S, SEED), SERVICE_S)
    assert -0.002 < np.median(excess_s) < OVERHEAD_S
    assert excess_s.mean() < OVERHEAD_S
    assert np.quantile(excess_s, 0.02) > -0.005


def test_the_mean_wait_is_pollaczek_khinchine_within_its_sampling_error(measured_s):
    load = RATE * SERVICE_S
    expected_s = load * SERVICE_S / (2 * (1 - load))
    means = [lindley_s(poisson(RATE, RUN_S, seed), SERVICE_S).mean() - SERVICE_S for seed in range(1000, 1200)]
    error_s = np.std(means, ddof=1)
    assert abs(measured_s.mean() - SERVICE_S - expected_s) < 3 * error_s + OVERHEAD_S


def test_the_share_that_meets_an_idle_server_is_one_minus_the_load(measured_s):
    exact = np.mean(lindley_s(poisson(RATE, RUN_S, SEED), SERVICE_S) <= SERVICE_S)
    assert np.mean(measured_s < SERVICE_S + OVERHEAD_S) == pytest.approx(exact, abs=0.15)
    assert exact == pytest.approx(1 - RATE * SERVICE_S, abs=0.08)


@pytest.mark.e2e
def test_a_stall_of_5_s_in_30_s_shows_p95_above_3_s():
    rate, run_s, after_s, stall_s = 100.0, 30.0, 10.0, 5.0
    spec = RunSpec(run=0, arm="m", block=0, position=0, seed=1, rate_per_s=rate, run_s=run_s, timeout_s=20)
    with NullServer(stall_after_s=after_s, stall_s=stall_s) as server, Generator(server.base_url) as generator:
        latencies = latencies_s(generator.run(spec).frame)
    arrivals_s = poisson(rate, run_s, 1) / 1e9 - poisson(rate, run_s, 1)[0] / 1e9
    held = (arrivals_s >= after_s) & (arrivals_s < after_s + stall_s)
    exact_s = np.where(held, after_s + stall_s - arrivals_s, 0)
    p95_s = np.quantile(latencies, 0.95, method="inverted_cdf")
    assert p95_s > 3
    assert p95_s == pytest.approx(stall_s - 0.05 * run_s, abs=3 * np.sqrt(0.05 * run_s * rate) / rate)
    assert p95_s == pytest.approx(np.quantile(exact_s, 0.95, method="inverted_cdf"), abs=0.05)
