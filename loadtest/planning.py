"""Turn an experiment into a plan: which runs in which order, on which seeds, judged by which metric."""

from typing import Literal

from bakeoff.errors import ExperimentError
from bakeoff.experiment import Arm, Experiment, Workload
from loadtest.plan import FIRST_AA_BLOCK, WARMUP_BLOCK, Depth, Limits, Plan, RunSpec
from loadtest.sample_size import required_samples

PrimaryMetric = Literal["latency_p99", "latency_p90", "latency_p50"]

PERCENTILES: dict[PrimaryMetric, float] = {"latency_p99": 0.99, "latency_p90": 0.90, "latency_p50": 0.50}
"""Metrics a verdict can be about, most demanding first."""

SMOKE_RUN_S = 10.0
"""Longest run at smoke depth."""
STANDARD_BLOCKS = 6
"""Fewest blocks at standard depth: with fewer than six, a sign-flip test cannot reach 5 %."""
STANDARD_AA_BLOCKS = 2
"""A/A blocks at standard depth, from which the noise floor is read."""
SMOKE_LIMITS = Limits(send_lag_s=0.010, send_lag_slo_share=0.10)
"""Limits at smoke depth, where the load generator may share its cores with the server."""
SHORT_DRAW = 0.0005
"""Chance that a run's Poisson draw holds fewer requests than the plan counts on."""


def make_plan(experiment: Experiment, model: str, a: str, b: str, depth: Depth) -> Plan:
    """Plan the comparison of arms `a` and `b` of a model; raise ExperimentError when it cannot be made."""
    workload = _workload(experiment, model)
    arms = {arm.id: arm for arm in _pair(experiment, model, a, b)}
    run_s = min(workload.run_s, SMOKE_RUN_S) if depth is Depth.SMOKE else workload.run_s
    return Plan(
        experiment=experiment.name,
        model=model,
        a=a,
        b=b,
        depth=depth,
        demonstration=experiment.demonstration or depth is Depth.SMOKE,
        pools={name: experiment.pools[arm.pool] for name, arm in arms.items()},
        simulated={name: arm.simulated for name, arm in arms.items()},
        precisions={name: str(arm.precision) for name, arm in arms.items()},
        slo=experiment.slo_of(model),
        accuracy=experiment.models[model].accuracy,
        primary_metric=primary_metric(workload.rate_per_s, run_s),
        limits=SMOKE_LIMITS if depth is Depth.SMOKE else Limits(),
        runs=_runs(workload, a, b, depth, run_s),
    )


def primary_metric(rate_per_s: float, run_s: float) -> PrimaryMetric:
    """Return the highest percentile that nearly every Poisson run of this rate and length holds enough requests for."""
    from scipy.stats import poisson

    least = int(poisson.ppf(SHORT_DRAW, rate_per_s * run_s))
    for metric, percentile in PERCENTILES.items():
        if least >= required_samples(percentile):
            return metric
    raise ExperimentError(
        f"{rate_per_s:g} requests a second for {run_s:g} s may be as few as {least} requests; even a median needs "
        f"{required_samples(0.5)} a run. Raise rate_per_s or run_s of the workload."
    )


def _workload(experiment: Experiment, model: str) -> Workload:
    spec = experiment.models.get(model)
    if spec is None:
        raise ExperimentError(
            f"unknown model {model!r} in experiment {experiment.name!r}. Models: {', '.join(experiment.models)}."
        )
    if spec.workload is None:
        raise ExperimentError(f"model {model!r} has no workload: add `workload:` with at least rate_per_s to compare its arms")
    return spec.workload


def _pair(experiment: Experiment, model: str, a: str, b: str) -> tuple[Arm, Arm]:
    if a == b:
        raise ExperimentError(
            f"both arms are {a!r}: give two arms. For an A/A check, declare the same arm twice under two names."
        )
    pair = (experiment.arm(a), experiment.arm(b))
    for arm in pair:
        if arm.model != model:
            raise ExperimentError(f"arm {arm.id!r} serves model {arm.model!r}, not {model!r}: compare arms of one model")
    return pair


def _runs(workload: Workload, a: str, b: str, depth: Depth, run_s: float) -> tuple[RunSpec, ...]:
    """Return warm-up runs, A/A blocks at standard depth, then the A B B A blocks, numbered in this order."""
    standard = depth is Depth.STANDARD
    blocks = max(workload.blocks, STANDARD_BLOCKS) if standard else workload.blocks
    spare_seed = workload.seed + blocks
    rows = [(WARMUP_BLOCK, position, arm, spare_seed) for position, arm in enumerate((a, b)) if workload.warmup_s > 0]
    for k in range(STANDARD_AA_BLOCKS if standard else 0):
        rows += [(FIRST_AA_BLOCK - k, position, a, spare_seed + 1 + k) for position in range(4)]
    for k in range(blocks):
        rows += [(k, position, arm, workload.seed + k) for position, arm in enumerate((a, b, b, a))]
    return tuple(_spec(workload, run, row, run_s) for run, row in enumerate(rows))


def _spec(workload: Workload, run: int, row: tuple[int, int, str, int], run_s: float) -> RunSpec:
    block, position, arm, seed = row
    return RunSpec(
        run=run,
        arm=arm,
        block=block,
        position=position,
        seed=seed,
        rate_per_s=workload.rate_per_s,
        run_s=workload.warmup_s if block == WARMUP_BLOCK else run_s,
        timeout_s=workload.timeout_s,
        protocol=workload.protocol,
    )
