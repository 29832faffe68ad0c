"""Compute when requests are due, before the run and from a seed alone."""

import numpy as np
from numpy.typing import NDArray

from bakeoff.errors import LoadError

Offsets = NDArray[np.int64]
"""Due times in nanoseconds from the run's start, ascending."""

MOST_REQUESTS = 50_000_000


def poisson(rate_per_s: float, run_s: float, seed: int) -> Offsets:
    """Return Poisson arrivals in [0, run_s): independent exponential gaps of mean 1 / rate_per_s, the first from 0."""
    _require_feasible(rate_per_s, run_s)
    gaps = _gaps(rate_per_s, run_s, np.random.default_rng(seed))
    times = np.cumsum(gaps)
    return _nanoseconds(times[times < run_s], run_s)


def constant(rate_per_s: float, run_s: float) -> Offsets:
    """Return arrivals in [0, run_s) at equal distances, the first at 0."""
    _require_feasible(rate_per_s, run_s)
    count = int(np.ceil(rate_per_s * run_s))
    times = np.arange(count) / rate_per_s
    return _nanoseconds(times[times < run_s], run_s)


def shard(offsets: Offsets, worker: int, workers: int) -> Offsets:
    """Return every `workers`-th arrival from the `worker`-th on, so that all workers see the same shape of load."""
    return offsets[shard_indices(len(offsets), worker, workers)]


def shard_indices(count: int, worker: int, workers: int) -> slice:
    """Return which of `count` places of a schedule a worker has, counted from 0."""
    if not 0 <= worker < workers:
        raise LoadError(f"worker {worker} of {workers} does not exist: workers count from 0 to {workers - 1}")
    return slice(worker, count, workers)


def share(total: int, worker: int, workers: int) -> int:
    """Return a worker's part of a whole number, such that all parts differ by at most one and add up to it."""
    return total // workers + (worker < total % workers)


def _require_feasible(rate_per_s: float, run_s: float) -> None:
    if not (rate_per_s > 0 and run_s > 0 and rate_per_s * run_s <= MOST_REQUESTS):
        raise LoadError(
            f"cannot schedule {rate_per_s:g} requests a second for {run_s:g} s: both must be above 0 and their product at "
            f"most {MOST_REQUESTS}; shorten the run or lower the rate"
        )


def _gaps(rate_per_s: float, run_s: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw gaps in equal chunks until their sum passes run_s, so that a longer run only adds to a shorter one."""
    chunks = []
    total_s = 0.0
    while total_s < run_s:
        chunks.append(rng.standard_exponential(1024) / rate_per_s)
        total_s += float(chunks[-1].sum())
    return np.concatenate(chunks)


def _nanoseconds(times_s: NDArray[np.float64], run_s: float) -> Offsets:
    offsets = np.floor(times_s * 1e9).astype(np.int64)
    return offsets[offsets < run_s * 1e9]
