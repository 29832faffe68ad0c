"""Compute a verdict from the raw files of a run folder, and from nothing else."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loadtest import wording
from loadtest.accuracy_checks import accuracy_findings
from loadtest.aggregates import ArmFigures, RunFigures
from loadtest.cost import Cost, arm_cost, break_even_per_hour
from loadtest.folder import VERDICT_FILE, RunFolder, read_folder
from loadtest.hardware import NOT_MEASURED, HardwareFigures, Window, hardware_figures
from loadtest.intervals import (
    FEWEST_BLOCKS,
    Estimate,
    block_log_ratios,
    blocks_needed,
    equivalence_p,
    estimate,
    noise_floor,
    sign_flip_p,
)
from loadtest.load_checks import load_findings
from loadtest.plan import FIRST_AA_BLOCK, Depth, Limits, Plan
from loadtest.planning import PERCENTILES
from loadtest.reasons import Finding, Reason
from loadtest.sample_size import required_samples
from loadtest.summary import arm_figures, run_figures, with_latency
from loadtest.telemetry_checks import telemetry_findings
from loadtest.telemetry_series import select
from loadtest.verdict import Comparison, Outcome, Verdict, judge, purchase_objections

if TYPE_CHECKING:
    import pandas as pd

SIMULATED_SUFFIX = "(SIMULATED)"
"""How a replayed device's product name ends."""


def analyse(path: Path) -> Verdict:
    """Read a run folder and return its verdict; raise RecordError when a raw file is missing, damaged or inconsistent."""
    return verdict_of(read_folder(path))


def write_verdict(path: Path) -> Verdict:
    """Analyse a run folder and write `verdict.json` into it."""
    verdict = analyse(path)
    partial = path / (VERDICT_FILE + ".partial")
    partial.write_text(verdict.model_dump_json(indent=1) + "\n", encoding="utf-8")
    partial.replace(path / VERDICT_FILE)
    return verdict


def verdict_of(folder: RunFolder) -> Verdict:
    """Return the verdict that a folder's raw content supports."""
    plan = folder.plan
    rows = with_latency(folder.requests, plan.slo)
    runs = all_runs(plan, rows)
    counted = [run for run in runs if run.block >= 0]
    arms = {
        arm: arm_figures(plan, arm, [r for r in counted if r.arm == arm], _counted_rows(rows, arm)) for arm in (plan.a, plan.b)
    }
    windows = counted_windows(rows)
    hardware = _hardware(plan, folder.telemetry, windows)
    simulated = simulated_arms(plan, folder.telemetry, windows)
    findings = [
        *load_findings(plan, counted, arms),
        *telemetry_findings(plan, folder.telemetry, windows, hardware),
        *accuracy_findings(plan, folder.accuracy),
        *_simulation_findings(plan, simulated),
    ]
    comparison, outcome = compare(plan, runs)
    if comparison is None and not findings:
        findings.append(Finding(reason=Reason.TOO_FEW_SAMPLES, detail="too few complete blocks to compare"))
    if findings:
        outcome = Outcome.INVALID
    objections = purchase_objections(plan.depth, outcome, simulated, demonstration=plan.demonstration)
    cost = _costs(plan, arms, hardware)
    return Verdict(
        experiment=plan.experiment,
        model=plan.model,
        a=plan.a,
        b=plan.b,
        depth=plan.depth,
        plan_digest=plan.digest,
        evidence=dict(folder.digests),
        outcome=outcome,
        sentence=_sentence(plan, outcome, comparison, findings),
        purchase=not objections,
        not_purchase_because=objections,
        simulated=simulated,
        comparison=comparison,
        reasons=tuple(findings),
        notes=_notes(plan, comparison, windows, hardware),
        arms=arms,
        runs=tuple(counted),
        hardware=hardware,
        accuracy={} if folder.accuracy is None else dict(folder.accuracy.arms),
        cost=cost,
        break_even_b_per_hour=_break_even(plan, arms, cost),
    )


def all_runs(plan: Plan, rows: "pd.DataFrame") -> list[RunFigures]:
    """Return the figures of every A/B and A/A run that has requests, in plan order."""
    by_run = dict(list(rows.groupby("run", sort=False)))
    specs = [s for s in plan.runs if (s.block >= 0 or s.block <= FIRST_AA_BLOCK) and s.run in by_run]
    return [run_figures(spec, by_run[spec.run], plan.slo) for spec in specs]


def counted_windows(rows: "pd.DataFrame") -> list[Window]:
    """Return when each counted run was under way, and which cards answered in it."""
    windows = []
    for run, own in rows[rows["block"] >= 0].groupby("run", sort=True):
        start = int(own["due_ns"].min())
        end = int(own["due_ns"].max()) if own["done_ns"].isna().all() else int(max(own["done_ns"].max(), own["due_ns"].max()))
        gpus = tuple(sorted(str(gpu) for gpu in own["gpu_uuid"].dropna().unique()))
        windows.append(Window(int(run), str(own["arm"].iloc[0]), start, end, gpus))
    return windows


def compare(plan: Plan, runs: Sequence[RunFigures]) -> tuple[Comparison | None, Outcome]:
    """Return the primary metric's ratio and the outcome it supports; None and INVALID with fewer than two complete blocks."""
    logs = _log_ratios(plan, [run for run in runs if run.block >= 0])
    if len(logs) < FEWEST_BLOCKS:
        return None, Outcome.INVALID
    found = estimate(list(logs.values()), plan.alpha)
    floor = noise_floor(list(_log_ratios(plan, [run for run in runs if run.block <= FIRST_AA_BLOCK]).values()))
    margin = math.log1p(plan.smallest_effect)
    threshold = max(margin, floor or 0.0)
    p_flip, p_equal = sign_flip_p(list(logs.values())), equivalence_p(found, margin)
    outcome = judge(found, threshold, plan.alpha, p_flip, p_equal)
    open_question = outcome is Outcome.INCONCLUSIVE
    comparison = Comparison(
        metric=plan.primary_metric,
        ratio=math.exp(found.mean),
        low=math.exp(found.low),
        high=math.exp(found.high),
        confidence=1 - plan.alpha,
        blocks={block: math.exp(x) for block, x in logs.items()},
        p_sign_flip=p_flip,
        p_equivalence=p_equal,
        band_low=math.exp(-margin),
        band_high=math.exp(margin),
        aa_floor=None if floor is None else math.exp(floor),
        blocks_needed=_needed(found, margin, threshold, plan.alpha) if open_question else None,
    )
    return comparison, outcome


def _needed(found: Estimate, margin: float, threshold: float, alpha: float) -> int | None:
    """Return blocks needed, and at least one more than there are: these did not decide."""
    needed = blocks_needed(found, margin, threshold, alpha)
    return None if needed is None else max(needed, found.blocks + 1)


def _log_ratios(plan: Plan, runs: Sequence[RunFigures]) -> dict[int, float]:
    latencies = {(run.block, run.position): run.latency_s[plan.primary_metric] for run in runs}
    return block_log_ratios({place: value for place, value in latencies.items() if value is not None and value > 0})


def _counted_rows(rows: "pd.DataFrame", arm: str) -> "pd.DataFrame":
    return rows[(rows["block"] >= 0) & (rows["arm"] == arm)]


def _hardware(plan: Plan, telemetry: "pd.DataFrame", windows: Sequence[Window]) -> dict[str, HardwareFigures]:
    cards = {arm: {gpu for w in windows if w.arm == arm for gpu in w.gpus} for arm in (plan.a, plan.b)}
    shared = frozenset(cards[plan.a] & cards[plan.b])
    return {arm: hardware_figures(telemetry, [w for w in windows if w.arm == arm], shared) for arm in cards}


def simulated_arms(plan: Plan, telemetry: "pd.DataFrame", windows: Sequence[Window]) -> tuple[str, ...]:
    """Return the arms with a simulated engine, or whose answers came from a device that telemetry marks as simulated."""
    names = {s.labels.get("gpu_uuid"): s.labels.get("name", "") for s in select(telemetry, "gpu_info")}
    marked = {uuid for uuid, name in names.items() if name.endswith(SIMULATED_SUFFIX)}
    devices = {w.arm for w in windows if marked.intersection(w.gpus)}
    return tuple(arm for arm in (plan.a, plan.b) if plan.simulated[arm] or arm in devices)


def _simulation_findings(plan: Plan, simulated: Sequence[str]) -> list[Finding]:
    """Invalidate simulated arms unless the plan is a demonstration, whose verdict is marked and never one to buy on."""
    if plan.demonstration:
        return []
    return [
        Finding(reason=Reason.SIMULATED_DEVICE, detail="the arm's engine or device is simulated", arm=arm) for arm in simulated
    ]


def _costs(plan: Plan, arms: Mapping[str, ArmFigures], hardware: Mapping[str, HardwareFigures]) -> dict[str, Cost]:
    return {
        name: arm_cost(
            name,
            plan.pools[name].price,
            hardware[name].mean_power_w,
            (arm.goodput_per_s, arm.goodput_low_per_s, arm.goodput_high_per_s),
            arm.latency_s["latency_p50"],
        )
        for name, arm in arms.items()
    }


def _break_even(plan: Plan, arms: Mapping[str, ArmFigures], cost: Mapping[str, Cost]) -> float | None:
    rate_a, rate_b, per_hour = arms[plan.a].goodput_per_s, arms[plan.b].goodput_per_s, cost[plan.a].per_hour
    if not rate_a or not rate_b or per_hour is None:
        return None
    return break_even_per_hour(per_hour, rate_a, rate_b)


def _sentence(plan: Plan, outcome: Outcome, found: Comparison | None, findings: Sequence[Finding]) -> str:
    if found is None or outcome is Outcome.INVALID:
        return wording.invalidity(findings)
    if outcome is Outcome.B_BETTER:
        return wording.claim(found.metric, plan.b, plan.a, found.ratio, found.low, found.high, found.confidence)
    if outcome is Outcome.A_BETTER:
        return wording.claim(found.metric, plan.a, plan.b, 1 / found.ratio, 1 / found.high, 1 / found.low, found.confidence)
    if outcome is Outcome.EQUIVALENT:
        return wording.equivalence(found.metric, plan.a, plan.b, plan.smallest_effect)
    return wording.indecision(found.metric, plan.a, plan.b, len(found.blocks), found.blocks_needed)


def _notes(
    plan: Plan, comparison: Comparison | None, windows: Sequence[Window], hardware: Mapping[str, HardwareFigures]
) -> tuple[str, ...]:
    notes = []
    if plan.primary_metric != "latency_p99":
        notes.append(
            f"A run holds too few requests for p99, which needs {required_samples(PERCENTILES['latency_p99'])}: "
            f"the verdict is about {wording.metric_name(plan.primary_metric)}."
        )
    if plan.depth is Depth.SMOKE:
        notes.append(_send_lag_note(plan))
    if comparison is not None and comparison.aa_floor is None:
        notes.append("No A/A blocks were run: the noise floor of this setup is not known.")
    cards = {gpu for w in windows for gpu in w.gpus}
    if cards:
        notes.append(
            f"{wording.counted(len(cards), 'card')} answered: the verdict is about the cards measured, not their product line."
        )
    if all(figures.note == NOT_MEASURED for figures in hardware.values()):
        notes.append("Power and thermals were not measured: there is no GPU telemetry.")
    if plan.accuracy is None:
        notes.append("The experiment sets no accuracy gate: accuracy does not enter the verdict.")
    return tuple(notes)


def _send_lag_note(plan: Plan) -> str:
    latency = plan.slo.latency_s if plan.slo else None
    allowed, strict = plan.limits.send_lag_allowed_s(latency), Limits().send_lag_allowed_s(latency)
    return (
        f"Smoke depth allows a p99 send lag of {wording.milliseconds(allowed)}, where a purchase verdict allows {wording.milliseconds(strict)}: "
        "the load generator may share its cores with the server."
    )
