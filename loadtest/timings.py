"""Compute the timings of one run from its rows: rates, send lag and latency from the due time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bakeoff.metrics import Outcome

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


def latencies_s(frame: "pd.DataFrame") -> NDArray[np.float64]:
    """Return the time from due to last byte of every scheduled request; infinite where no good answer came."""
    answered = (frame["done_ns"] - frame["due_ns"]).to_numpy(dtype=np.float64, na_value=np.inf) / 1e9
    return np.where(frame["outcome"] == Outcome.OK, answered, np.inf)


def quantile(values: Sequence[float] | NDArray[np.float64], q: float) -> float | None:
    """Return the smallest value that a share q of all does not exceed; None without values or where it is infinite."""
    if not len(values):
        return None
    found = float(np.quantile(values, q, method="inverted_cdf"))
    return found if np.isfinite(found) else None


def latency_quantiles_s(frame: "pd.DataFrame") -> dict[str, float | None]:
    """Return the usual quantiles of latency over all scheduled requests."""
    latencies = latencies_s(frame)
    return {name: quantile(latencies, q) for name, q in QUANTILES.items()}


def outcomes(frame: "pd.DataFrame") -> dict[Outcome, int]:
    """Count requests by how they ended."""
    return {Outcome(name): int(n) for name, n in frame["outcome"].value_counts().items()}


def send_lags_s(due_ns: Sequence[int], sent_ns: Sequence[int | None]) -> NDArray[np.float64]:
    """Return the delay from due to sent of every request that was sent."""
    return np.array([sent - due for due, sent in zip(due_ns, sent_ns, strict=True) if sent is not None], dtype=np.float64) / 1e9


def achieved_rate_per_s(sent_ns: Sequence[int | None], start_ns: int, run_s: float) -> float:
    """Return requests sent a second, over the planned length or until the last was sent if that took longer."""
    sent = [s for s in sent_ns if s is not None]
    return len(sent) / max(run_s, (max(sent) - start_ns) / 1e9) if sent else 0.0
