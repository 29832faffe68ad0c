"""Reduce raw requests to figures a run and figures an arm.

A request that failed, timed out, was refused or never sent counts as infinitely late, so that it can only worsen a percentile.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bakeoff.experiment import Slo
from bakeoff.metrics import Outcome
from loadtest.aggregates import ArmFigures, RunFigures
from loadtest.plan import Plan, RunSpec
from loadtest.planning import PERCENTILES
from loadtest.sample_size import required_samples

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


def with_latency(requests: "pd.DataFrame", slo: Slo | None) -> "pd.DataFrame":
    """Add `latency_s` (infinite without a good answer) and `good` (a good answer within the SLO, if there is one)."""
    ok = ((requests["outcome"] == Outcome.OK.value) & requests["done_ns"].notna()).fillna(value=False).astype(bool)
    latency = ((requests["done_ns"] - requests["due_ns"]).astype("Float64") / 1e9).where(ok).astype("float64").fillna(np.inf)
    first = ((requests["first_ns"] - requests["due_ns"]).astype("Float64") / 1e9).where(ok).astype("float64").fillna(np.inf)
    good = ok
    if slo is not None and slo.latency_s is not None:
        good = good & (latency <= slo.latency_s)
    if slo is not None and slo.ttft_s is not None:
        good = good & (first <= slo.ttft_s)
    return requests.assign(ok=ok, latency_s=latency, good=good)


def percentile(latency_s: Floats, share: float) -> float:
    """Return the smallest latency that at least `share` of the requests do not exceed; infinite if one of those failed."""
    return float(np.quantile(latency_s, share, method="inverted_cdf"))


def percentiles(latency_s: Floats) -> dict[str, float | None]:
    """Return each percentile that the number of requests allows; null where it does not or where it is infinite."""
    return {
        metric: _finite(percentile(latency_s, share)) if len(latency_s) >= required_samples(share) else None
        for metric, share in PERCENTILES.items()
    }


def run_figures(spec: RunSpec, rows: "pd.DataFrame", slo: Slo | None) -> RunFigures:
    """Sum up one run; `rows` are its requests as `with_latency` returns them."""
    ok = rows[rows["ok"]]
    growth = backlog_growth(rows) if spec.kind == "open" else None
    return RunFigures(
        run=spec.run,
        arm=spec.arm,
        block=spec.block,
        position=spec.position,
        kind=spec.kind,
        run_s=spec.run_s,
        requests=len(rows),
        ok=len(ok),
        failed=len(rows) - len(ok),
        timeouts=int((rows["outcome"] == Outcome.TIMEOUT.value).sum()),
        unsent=int(rows["sent_ns"].isna().sum()),
        wrong_arm=int((ok["served_by"].fillna("") != spec.arm).sum()),
        latency_s=percentiles(rows["latency_s"].to_numpy()),
        mean_latency_s=_mean(ok["latency_s"]),
        rate_per_s=len(ok) / spec.run_s,
        goodput_per_s=int(rows["good"].sum()) / spec.run_s if judges(slo) else None,
        send_lag_p99_s=_send_lag_p99_s(rows),
        sent_rate_ratio=_sent_rate_ratio(rows) if spec.kind == "open" else None,
        backlog_growth=growth,
        backlog_share=None if growth is None else growth / (len(rows) / 2),
    )


def judges(slo: Slo | None) -> bool:
    """Say whether the records can tell a good answer from a late one; the time between tokens is not recorded."""
    return slo is None or slo.itl_s is None


def arm_figures(plan: Plan, arm: str, runs: Sequence[RunFigures], rows: "pd.DataFrame") -> ArmFigures:
    """Sum up one arm over its counted runs; `rows` are all their requests as `with_latency` returns them."""
    ok = rows[rows["ok"]]
    goodputs = [run.goodput_per_s for run in runs if run.goodput_per_s is not None]
    low, high = _t_interval(goodputs, plan.alpha)
    return ArmFigures(
        arm=arm,
        accelerator=plan.pools[arm].accelerator,
        precision=plan.precisions[arm],
        simulated=plan.simulated[arm],
        runs=len(runs),
        requests=len(rows),
        ok=len(ok),
        failed=len(rows) - len(ok),
        timeouts=sum(run.timeouts for run in runs),
        unsent=sum(run.unsent for run in runs),
        error_share=(len(rows) - len(ok)) / len(rows) if len(rows) else 1.0,
        latency_s={m: _geometric_mean([run.latency_s[m] for run in runs]) for m in PERCENTILES},
        mean_latency_s=_mean(ok["latency_s"]),
        rate_per_s=_mean_of([run.rate_per_s for run in runs]),
        send_lag_p99_s=_send_lag_p99_s(rows),
        goodput_per_s=_mean_of(goodputs),
        goodput_low_per_s=low,
        goodput_high_per_s=high,
        within_slo=float(rows["good"].mean()) if len(rows) and plan.slo is not None and judges(plan.slo) else None,
        batch_size=_mean_batch_size(ok),
        queue_s=_median_s(ok["queue_ns"]),
        execution_s=_median_s(ok["execution_ns"]),
        gpus=tuple(sorted(str(g) for g in ok["gpu_uuid"].dropna().unique())),
    )


def backlog_growth(rows: "pd.DataFrame") -> float | None:
    """Return the mean number of requests in flight in the last quarter of a run's schedule less that in its second quarter.

    The first quarter is left out because every run starts with an empty queue.
    """
    if len(rows) < 8:
        return None
    due = rows["due_ns"].to_numpy(dtype="float64")
    done = rows["done_ns"].astype("Float64").fillna(np.inf).to_numpy(dtype="float64")
    quarters = np.linspace(due.min(), due.max(), 5)
    if quarters[0] == quarters[-1]:
        return None
    return _in_flight(due, done, quarters[3], quarters[4]) - _in_flight(due, done, quarters[1], quarters[2])


def _in_flight(due: Floats, done: Floats, start: float, end: float) -> float:
    """Return the mean number of requests that were due and not done over a span of time."""
    return float(np.clip(np.minimum(done, end) - np.maximum(due, start), 0, None).sum() / (end - start))


def _send_lag_p99_s(rows: "pd.DataFrame") -> float | None:
    sent = rows[rows["sent_ns"].notna()]
    if sent.empty:
        return None
    return percentile((sent["sent_ns"] - sent["due_ns"]).to_numpy(dtype="float64") / 1e9, 0.99)


def _sent_rate_ratio(rows: "pd.DataFrame") -> float:
    """Return the share of requests that was sent, divided by how much slower than the schedule sending went.

    That pace is the slope of a line through sent over due times, so that one late request is send lag, not a lower rate.
    """
    sent = rows[rows["sent_ns"].notna()]
    share = len(sent) / len(rows) if len(rows) else 0.0
    due, start = sent["due_ns"].to_numpy(dtype="int64"), sent["sent_ns"].to_numpy(dtype="int64")
    if len(sent) < 2 or due.min() == due.max():
        return share
    return share / max(1.0, _slope((due - due[0]) / 1e9, (start - due[0]) / 1e9))


def _slope(x: Floats, y: Floats) -> float:
    from scipy.stats import linregress

    return float(linregress(x, y).slope)


def _mean_batch_size(ok: "pd.DataFrame") -> float | None:
    """Return the mean over executed batches: a request of i items is i/b of a batch of b."""
    known = ok[ok["batch_size"].notna() & (ok["batch_size"] > 0)]
    if known.empty:
        return None
    items = known["items"].to_numpy(dtype="float64")
    return float(items.sum() / (items / known["batch_size"].to_numpy(dtype="float64")).sum())


def _median_s(column_ns: "pd.Series") -> float | None:
    known = column_ns.dropna()
    return None if known.empty else float(np.median(known.to_numpy(dtype="float64"))) / 1e9


def _mean(column: "pd.Series") -> float | None:
    return None if column.empty else float(column.to_numpy(dtype="float64").mean())


def _mean_of(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _geometric_mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    if not known or len(known) < len(values) or min(known) <= 0:
        return None
    return float(np.exp(np.mean(np.log(known))))


def _t_interval(values: Sequence[float], alpha: float) -> tuple[float | None, float | None]:
    from scipy.stats import t

    if len(values) < 2:
        return None, None
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))
    half = float(t.ppf(1 - alpha / 2, len(values) - 1)) * error
    return max(0.0, mean - half), mean + half
