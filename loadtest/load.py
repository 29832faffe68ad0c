"""Put one load on one model of any Open Inference Protocol server, keep the raw requests and sum them up."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bakeoff.closed import Closed
from bakeoff.errors import LoadError
from bakeoff.metrics import Outcome
from loadtest.generator import Generator, RunResult
from loadtest.job import Payload
from loadtest.plan import RunSpec
from loadtest.records import REQUESTS_FILE

SUMMARY_FILE = "load.json"


class LoadSummary(Closed):
    """Sum up one load; latency runs from the due time, and a request without a good answer counts as infinitely late."""

    model: str
    url: str
    protocol: str
    kind: Literal["open", "closed"]
    """Whether requests followed a schedule, or each the one before."""
    rate_per_s: float | None
    """Rate asked for; absent in a closed loop."""
    concurrency: int | None
    """Requests kept in flight; absent in an open loop."""
    run_s: float
    seed: int
    workers: int
    requests: int
    """Scheduled requests, the denominator of every share."""
    outcomes: dict[Outcome, int]
    """Requests by how they ended."""
    throughput_per_s: float
    """Good answers a second of the run."""
    latency_s: dict[str, float | None]
    """Quantiles of latency; null where it is infinite."""
    slo_s: float | None
    goodput_per_s: float | None
    """Good answers within the SLO, a second of the run; null without an SLO."""
    achieved_rate_per_s: float
    """Requests sent a second."""
    send_lag_p50_s: float | None
    send_lag_p99_s: float | None
    """Delay from due to sent; null in a closed loop."""


@dataclass(frozen=True)
class LoadOptions:
    """Say what load to put on which model."""

    url: str
    model: str
    rate_per_s: float | None = None
    """Rate of an open loop; leave it out for a closed loop."""
    concurrency: int | None = None
    """Requests in flight of a closed loop."""
    duration_s: float = 30.0
    timeout_s: float = 10.0
    seed: int = 1
    protocol: Literal["http", "grpc"] = "http"
    grpc_url: str | None = None
    workers: int = 1
    payload: Payload = field(default_factory=Payload)
    headers: Mapping[str, str] | None = None
    slo_s: float | None = None


def run_load(options: LoadOptions, out: Path) -> LoadSummary:
    """Run a load; write its requests and summary into the folder `out`; return the summary."""
    out.mkdir(parents=True, exist_ok=True)
    spec = load_spec(options)
    with Generator(
        options.url, options.grpc_url, workers=options.workers, payload=options.payload, headers=options.headers
    ) as generator:
        result = generator.run(spec)
        summary = summarise(options, result)
        result.keep(out / REQUESTS_FILE)
    (out / SUMMARY_FILE).write_text(summary.model_dump_json(indent=2) + "\n")
    return summary


def load_spec(options: LoadOptions) -> RunSpec:
    """Return the run that the options describe; raise LoadError unless they name either a rate or a concurrency."""
    if (options.rate_per_s is None) == (options.concurrency is None):
        raise LoadError("say either how many requests a second (open loop) or how many in flight (closed loop), not both")
    return RunSpec(
        run=0,
        arm=options.model,
        block=0,
        position=0,
        seed=options.seed,
        kind="open" if options.concurrency is None else "closed",
        rate_per_s=options.rate_per_s or 1.0,
        concurrency=options.concurrency or 1,
        run_s=options.duration_s,
        timeout_s=options.timeout_s,
        protocol=options.protocol,
    )


def summarise(options: LoadOptions, result: RunResult) -> LoadSummary:
    """Sum a finished run up."""
    from loadtest.timings import latencies_s, latency_quantiles_s

    slo_s, run_s = options.slo_s, options.duration_s
    within = None if slo_s is None else int((latencies_s(result.frame) <= slo_s).sum())
    return LoadSummary(
        model=options.model,
        url=options.url,
        protocol=options.protocol,
        kind=result.spec.kind,
        rate_per_s=options.rate_per_s,
        concurrency=options.concurrency,
        run_s=run_s,
        seed=options.seed,
        workers=options.workers,
        requests=len(result.frame),
        outcomes=result.outcomes,
        throughput_per_s=result.good / run_s,
        latency_s=latency_quantiles_s(result.frame),
        slo_s=slo_s,
        goodput_per_s=None if within is None else within / run_s,
        achieved_rate_per_s=result.achieved_rate_per_s,
        send_lag_p50_s=result.send_lag_p50_s,
        send_lag_p99_s=result.send_lag_p99_s,
    )
