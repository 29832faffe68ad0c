"""Sum up raw requests: what each counted run showed, and what each arm showed over its runs."""

from pydantic import Field

from bakeoff.closed import Closed


class RunFigures(Closed):
    """Hold one counted run's figures; times in seconds from the due time, absent where they could not be had."""

    run: int
    arm: str
    block: int
    position: int
    kind: str
    run_s: float
    requests: int
    """Requests the schedule held."""
    ok: int
    failed: int
    """Requests without a good answer, for whatever cause."""
    timeouts: int
    unsent: int
    wrong_arm: int
    """Answers that do not name the arm they were meant for."""
    latency_s: dict[str, float | None]
    """Percentiles by metric name; null when the run has too few requests or the percentile falls on an unanswered one."""
    mean_latency_s: float | None
    rate_per_s: float
    """Good answers a second of schedule."""
    goodput_per_s: float | None
    """Good answers within the SLO, a second of schedule."""
    send_lag_p99_s: float | None
    sent_rate_ratio: float | None
    """Rate that was sent over rate that was scheduled; null in a closed loop."""
    backlog_growth: float | None
    """Requests in flight in the last quarter of the run less those in the second quarter."""
    backlog_share: float | None
    """backlog_growth over the arrivals in the same time."""


class ArmFigures(Closed):
    """Hold one arm's figures over all counted runs."""

    arm: str
    accelerator: str
    precision: str
    simulated: bool
    runs: int
    requests: int
    ok: int
    failed: int
    timeouts: int
    unsent: int
    error_share: float
    latency_s: dict[str, float | None]
    """Geometric mean of the runs' percentiles, by metric name; null unless every run has one."""
    mean_latency_s: float | None
    rate_per_s: float | None
    send_lag_p99_s: float | None
    goodput_per_s: float | None
    goodput_low_per_s: float | None
    goodput_high_per_s: float | None
    """95 % t interval of the goodput over runs; null with fewer than two runs."""
    within_slo: float | None
    """Share of all scheduled requests with a good answer within the SLO."""
    batch_size: float | None
    """Mean items of an executed batch, as the answers say."""
    queue_s: float | None
    """Median time in the arm's queue, as the answers say."""
    execution_s: float | None
    """Median time in the engine, as the answers say."""
    gpus: tuple[str, ...] = Field(default=())
    """Cards that answered."""
