"""Check the load itself: errors, timeouts, send lag, rate, backlog, sample counts and who answered."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from loadtest.aggregates import ArmFigures, RunFigures
from loadtest.intervals import FEWEST_BLOCKS
from loadtest.plan import Plan
from loadtest.planning import PERCENTILES
from loadtest.reasons import Finding, Reason
from loadtest.sample_size import required_samples
from loadtest.schedule import poisson
from loadtest.wording import counted, milliseconds

GROSS_SHARE = 0.10
GROSS_REQUESTS = 20
"""Growth of the backlog that condemns a single run: both this share of its arrivals and this many requests."""


def load_findings(plan: Plan, runs: Sequence[RunFigures], arms: Mapping[str, ArmFigures]) -> list[Finding]:
    """Return everything that the raw requests say against the comparison."""
    findings: list[Finding | None] = [_complete_blocks(plan, runs), _samples(plan, runs)]
    for arm, figures in arms.items():
        own = [run for run in runs if run.arm == arm]
        findings += [
            _errors(plan, own, figures),
            _censored(plan, own, arm),
            _send_lag(plan, own, figures),
            _rate(plan, own, arm),
            _schedule(plan, own, arm),
            _backlog(plan, own, arm),
            _wrong_arm(own, arm),
        ]
    return [finding for finding in findings if finding is not None]


def _complete_blocks(plan: Plan, runs: Sequence[RunFigures]) -> Finding | None:
    planned = {spec.run for spec in plan.runs if spec.block >= 0}
    recorded = {run.run for run in runs if run.requests}
    blocks = {spec.block for spec in plan.runs if spec.block >= 0}
    missing = sorted(planned - recorded)
    if missing:
        detail = f"{len(missing)} of {len(planned)} planned runs have no requests, the first of them run {missing[0]}"
        return Finding(reason=Reason.TOO_FEW_SAMPLES, detail=detail)
    if len(blocks) < FEWEST_BLOCKS:
        return Finding(reason=Reason.TOO_FEW_SAMPLES, detail=f"{len(blocks)} blocks planned, an interval needs {FEWEST_BLOCKS}")
    return None


def _samples(plan: Plan, runs: Iterable[RunFigures]) -> Finding | None:
    needed = required_samples(PERCENTILES[plan.primary_metric])
    short = [run for run in runs if 0 < run.requests < needed]
    if not short:
        return None
    least = min(short, key=lambda run: run.requests)
    detail = f"{counted(len(short), 'run')} of fewer than the {needed} requests that {plan.primary_metric} needs; run {least.run} has {least.requests}"
    return Finding(reason=Reason.TOO_FEW_SAMPLES, detail=detail)


def _errors(plan: Plan, runs: Iterable[RunFigures], figures: ArmFigures) -> Finding | None:
    """Find more failures than allowed in all, or a run whose primary percentile falls on one."""
    hit = [r.run for r in runs if r.failed > r.timeouts and r.requests and r.latency_s[plan.primary_metric] is None]
    if figures.error_share <= plan.limits.error_share and not hit:
        return None
    detail = f"{figures.failed} of {figures.requests} requests failed ({figures.error_share:.2%}); {plan.limits.error_share:.2%} is allowed"
    return Finding(reason=Reason.ERRORS, detail=detail, arm=figures.arm)


def _censored(plan: Plan, runs: Sequence[RunFigures], arm: str) -> Finding | None:
    """Find timeouts above the allowed share of errors, or a primary percentile that falls on one."""
    timeouts, requests = sum(run.timeouts for run in runs), sum(run.requests for run in runs)
    hit = [r.run for r in runs if r.timeouts and r.requests and r.latency_s[plan.primary_metric] is None]
    if not hit and timeouts <= plan.limits.error_share * requests:
        return None
    where = f"; {plan.primary_metric} is unknown in {counted(len(hit), 'run')}" if hit else ""
    return Finding(reason=Reason.CLIENT_TIMEOUT_CENSORED, detail=f"{timeouts} of {requests} requests timed out{where}", arm=arm)


def _send_lag(plan: Plan, runs: Sequence[RunFigures], figures: ArmFigures) -> Finding | None:
    """Find late sending in any run, or over all of the arm's runs when single runs are too short for a 99th percentile."""
    allowed = plan.limits.send_lag_allowed_s(plan.slo.latency_s if plan.slo else None)
    long_enough = all(run.requests >= required_samples(0.99) for run in runs)
    lags = [run.send_lag_p99_s for run in runs] if long_enough else [figures.send_lag_p99_s]
    worst = max((lag for lag in lags if lag is not None), default=0.0)
    if worst <= allowed:
        return None
    where = "in the worst run" if long_enough else "over all runs"
    detail = f"p99 send lag is {milliseconds(worst)} {where}; {milliseconds(allowed)} is allowed"
    return Finding(reason=Reason.SEND_LAG, detail=detail, arm=figures.arm)


def _rate(plan: Plan, runs: Iterable[RunFigures], arm: str) -> Finding | None:
    least = 1 - plan.limits.rate_shortfall
    slow = [(run.sent_rate_ratio, run.run) for run in runs if run.sent_rate_ratio is not None and run.sent_rate_ratio < least]
    if not slow:
        return None
    worst, run_number = min(slow)
    detail = f"run {run_number} sent {worst:.1%} of its scheduled rate; at least {least:.1%} is required ({counted(len(slow), 'run')} below)"
    return Finding(reason=Reason.RATE_NOT_ACHIEVED, detail=detail, arm=arm)


def _schedule(plan: Plan, runs: Sequence[RunFigures], arm: str) -> Finding | None:
    """Find open runs whose records hold another number of requests than their seed gives."""
    specs = {spec.run: spec for spec in plan.runs}
    planned = {
        r.run: len(poisson(specs[r.run].rate_per_s, specs[r.run].run_s, specs[r.run].seed)) for r in runs if r.kind == "open"
    }
    wrong = [run for run in runs if run.run in planned and run.requests != planned[run.run]]
    if not wrong:
        return None
    first = wrong[0]
    detail = f"run {first.run} records {first.requests} requests, its seed schedules {planned[first.run]} ({counted(len(wrong), 'run')} so)"
    return Finding(reason=Reason.RATE_NOT_ACHIEVED, detail=detail, arm=arm)


def _backlog(plan: Plan, runs: Sequence[RunFigures], arm: str) -> Finding | None:
    shares = [run.backlog_share for run in runs if run.backlog_share is not None]
    gross = [run.run for run in runs if _grossly_growing(run)]
    if gross:
        return Finding(
            reason=Reason.BACKLOG_GROWING,
            detail=f"requests in flight pile up in {counted(len(gross), 'run')}, first in run {gross[0]}",
            arm=arm,
        )
    if len(shares) >= 2 and np.mean(shares) > plan.limits.backlog_share and _lower95(shares) > 0:
        detail = (
            f"on average {np.mean(shares):.1%} of the arrivals are left in flight; {plan.limits.backlog_share:.1%} is allowed"
        )
        return Finding(reason=Reason.BACKLOG_GROWING, detail=detail, arm=arm)
    return None


def _grossly_growing(run: RunFigures) -> bool:
    if run.backlog_growth is None or run.backlog_share is None:
        return False
    return run.backlog_growth > GROSS_REQUESTS and run.backlog_share > GROSS_SHARE


def _lower95(values: Sequence[float]) -> float:
    from scipy.stats import t

    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(np.mean(values)) - float(t.ppf(0.95, len(values) - 1)) * error


def _wrong_arm(runs: Iterable[RunFigures], arm: str) -> Finding | None:
    wrong = sum(run.wrong_arm for run in runs)
    if not wrong:
        return None
    return Finding(reason=Reason.WRONG_ARM, detail=f"{wrong} answers name another arm, or none", arm=arm)
