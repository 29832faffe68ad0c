"""Define what a generator process is asked to do and what it answers, one JSON object a line."""

from pathlib import Path

from pydantic import Field

from bakeoff.closed import Closed
from bakeoff.metrics import Outcome
from loadtest.plan import RunSpec


class Payload(Closed):
    """Say what requests carry."""

    inputs: Path | None = None
    """An .npz with one array an input, samples first; without it inputs are random."""
    items: int = Field(default=1, ge=1, le=4096)
    """Samples in one request."""
    distinct: int = Field(default=64, ge=1, le=100_000)
    """Different request bodies, used in turn."""


class Job(Closed):
    """Ask one generator process for its part of a run."""

    spec: RunSpec
    """The whole run."""
    rows: Path
    """Parquet file to write the part's requests to."""
    payload: Payload = Payload()
    """What the requests carry."""
    headers: dict[str, str] = {}
    """Further HTTP headers or gRPC metadata, such as an API key."""
    clock_offset_ns: int
    """Offset of the comparison's clock from the system's monotonic clock."""
    worker: int = Field(default=0, ge=0)
    """Number of this process, from 0."""
    workers: int = Field(default=1, ge=1, le=256)
    """Processes that share the run."""


class Start(Closed):
    """Tell a generator process that is ready when its run starts."""

    start_ns: int
    """Start on the comparison's clock; due times count from it."""


class Reply(Closed):
    """Answer a line: `ready` to a job, the figures of this part to a start, or an error."""

    ready: bool = False
    error: str | None = None
    requests: int = 0
    """Requests of this part."""
    outcomes: dict[Outcome, int] = {}
    """Requests by how they ended."""
    send_lag_p50_ms: float | None = None
    """Median delay from due to sent; None in a closed loop."""
    send_lag_p99_ms: float | None = None
    """99th percentile of the same."""
    achieved_rate_per_s: float = 0
    """Requests sent a second."""
    cpu_share: float = 0
    """Share of one core that the process used."""
