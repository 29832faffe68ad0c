"""Show what the load generator itself can do: its capacity and its send lag against a server that does nothing."""

from bakeoff.closed import Closed
from loadtest.generator import Generator, RunResult
from loadtest.metadata import fetch_metadata
from loadtest.nullserver import NullServer
from loadtest.plan import RunSpec

CONCURRENCY = 32
CAPACITY_FACTOR = 3.0
LEAST_LAG_LIMIT_S = 0.0005
SLO_SHARE = 0.02


class Calibration(Closed):
    """Hold what the generator reached with a run's real payload against the null server, and what the run asks for."""

    protocol: str
    workers: int
    rate_per_s: float
    """Rate of the run that the generator is calibrated for."""
    capacity_per_s: float
    """Requests a second in a closed loop; a lower bound, because the null server shares the machine."""
    send_lag_p50_s: float | None
    send_lag_p99_s: float | None
    """Send lag at `rate_per_s`."""
    send_lag_limit_s: float
    """Most that the 99th percentile of send lag may be: 0.5 ms, or 2 % of the SLO if that is more."""

    @property
    def saturated(self) -> bool:
        """Say whether the generator has less than three times the capacity that the run needs."""
        return self.capacity_per_s < CAPACITY_FACTOR * self.rate_per_s

    @property
    def late(self) -> bool:
        """Say whether requests leave too late for their latency to be trusted."""
        return self.send_lag_p99_s is None or self.send_lag_p99_s > self.send_lag_limit_s


def calibrate(
    generator: Generator, spec: RunSpec, slo_s: float | None = None, capacity_s: float = 3.0, lag_s: float = 5.0
) -> Calibration:
    """Measure a generator for a run: the same model metadata, payload, protocol and number of processes, no server work."""
    metadata = fetch_metadata(generator.base_url, spec.arm, generator.headers)
    items = generator.payload.items
    with (
        NullServer(metadata=metadata, items=items, grpc=spec.protocol == "grpc") as server,
        generator.against(server.base_url, server.grpc_url) as sibling,
    ):
        sibling.run(_closed(spec, 0.5))
        capacity = sibling.run(_closed(spec, capacity_s))
        paced = sibling.run(spec.model_copy(update={"kind": "open", "run_s": lag_s}))
        return _figures(sibling, spec, slo_s, capacity, paced)


def _closed(spec: RunSpec, run_s: float) -> RunSpec:
    return spec.model_copy(update={"kind": "closed", "concurrency": CONCURRENCY, "run_s": run_s})


def _figures(generator: Generator, spec: RunSpec, slo_s: float | None, capacity: RunResult, paced: RunResult) -> Calibration:
    return Calibration(
        protocol=spec.protocol,
        workers=generator.workers,
        rate_per_s=spec.rate_per_s,
        capacity_per_s=capacity.good / capacity.spec.run_s,
        send_lag_p50_s=paced.send_lag_p50_s,
        send_lag_p99_s=paced.send_lag_p99_s,
        send_lag_limit_s=max(LEAST_LAG_LIMIT_S, SLO_SHARE * (slo_s or 0)),
    )
