"""Fix a comparison before any data exists: which runs, in which order, on which seeds, judged how."""

import hashlib
from enum import StrEnum
from typing import Literal

from pydantic import Field

from bakeoff.closed import Closed
from bakeoff.experiment import AccuracyGate, Pool, Slo

WARMUP_BLOCK = -1
FIRST_AA_BLOCK = -2
"""A/A blocks count down from here: all four runs load arm A, the middle two standing in for B."""


class Depth(StrEnum):
    """Say how much evidence a comparison gathers."""

    SMOKE = "smoke"
    STANDARD = "standard"


class RunSpec(Closed):
    """Describe one run: one load of fixed shape against one arm."""

    run: int = Field(ge=0)
    """Number of the run within the comparison, from 0."""
    arm: str
    """Arm, also its model name on the wire."""
    block: int
    """Block the run belongs to, from 0; -1 for warm-up runs, which are recorded but never counted; below that A/A blocks."""
    position: int = Field(ge=0, le=3)
    """Place within the block's A B B A."""
    seed: int
    """Seed of arrivals and inputs: the same for all four runs of a block."""
    kind: Literal["open", "closed"] = "open"
    """Open loop sends on a schedule; closed loop keeps `concurrency` requests in flight."""
    rate_per_s: float = Field(gt=0)
    """Mean arrival rate of the open loop."""
    concurrency: int = Field(default=1, ge=1)
    """Requests in flight in a closed loop."""
    run_s: float = Field(gt=0)
    """Length of the schedule, or of the closed loop."""
    timeout_s: float = Field(gt=0)
    """Time after which the client gives up on a request."""
    protocol: Literal["http", "grpc"] = "http"
    """Wire protocol."""


class Limits(Closed):
    """Bound what a run may show before it stops counting as a measurement; the defaults are those of a purchase verdict."""

    error_share: float = Field(default=0.001, ge=0, lt=1)
    """Largest share of an arm's requests that may fail."""
    send_lag_s: float = Field(default=0.0005, gt=0)
    """Send lag at the 99th percentile that is always allowed, seconds."""
    send_lag_slo_share: float = Field(default=0.02, ge=0, lt=1)
    """Send lag at the 99th percentile that is allowed as a share of the SLO's latency; the larger of the two counts."""
    rate_shortfall: float = Field(default=0.01, gt=0, lt=1)
    """Largest relative shortfall of the rate that was sent against the rate that was scheduled."""
    backlog_share: float = Field(default=0.02, gt=0, lt=1)
    """Largest growth of the requests in flight, as a share of the arrivals in the same time."""
    telemetry_gap_s: float = Field(default=3, gt=0)
    """Longest time without a telemetry sample, seconds."""
    energy_disagreement: float = Field(default=0.05, gt=0, lt=1)
    """Largest relative difference between the energy counter and the integral of power."""

    def send_lag_allowed_s(self, latency_s: float | None) -> float:
        """Return the allowed send lag at the 99th percentile under an SLO's latency target, both in seconds."""
        return max(self.send_lag_s, self.send_lag_slo_share * (latency_s or 0))


class Plan(Closed):
    """Hold all that is decided before the first request; its digest stands in the verdict."""

    experiment: str
    """Name of the experiment."""
    model: str
    """Model both arms serve."""
    a: str
    """Arm A, the baseline."""
    b: str
    """Arm B, the candidate; ratios are B over A."""
    depth: Depth
    demonstration: bool
    """Mark the verdict as no purchase verdict; always so for smoke depth."""
    pools: dict[str, Pool]
    """Pools by arm id."""
    simulated: dict[str, bool]
    """Whether an arm's engine is simulated, by arm id."""
    precisions: dict[str, str]
    """Precision by arm id."""
    slo: Slo | None
    accuracy: AccuracyGate | None
    primary_metric: Literal["latency_p99", "latency_p90", "latency_p50"]
    """What the verdict is about; chosen by how many requests one run holds."""
    smallest_effect: float = Field(default=0.05, gt=0, lt=1)
    """Relative difference below which arms count as equivalent."""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    """Two-sided error rate."""
    limits: Limits = Limits()
    """What invalidates a run; wider at smoke depth, and then the verdict says so."""
    planned_utilisation: float = Field(default=0.6, gt=0, le=1)
    """Share of capacity a fleet is planned to run at."""
    runs: tuple[RunSpec, ...]
    """Every run in order."""

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the plan's canonical JSON."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()
