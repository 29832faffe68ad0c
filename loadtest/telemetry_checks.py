"""Check what telemetry says against a comparison: gaps, throttling, energy sources that disagree."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadtest.hardware import HardwareFigures, Window
from loadtest.plan import Plan
from loadtest.reasons import Finding, Reason
from loadtest.telemetry_series import Series, Times, gpu_sample_times, sample_times, select
from loadtest.wording import counted

if TYPE_CHECKING:
    import pandas as pd

THROTTLES: dict[str, Reason] = {
    "hw_slowdown": Reason.THROTTLE_HW_SLOWDOWN,
    "hw_thermal_slowdown": Reason.THROTTLE_HW_THERMAL,
    "sw_thermal_slowdown": Reason.THROTTLE_SW_THERMAL,
    "hw_power_brake_slowdown": Reason.POWER_BRAKE,
}
"""Reason labels of the throttle series that invalidate; the software power cap belongs to a card under load and does not."""


def telemetry_findings(
    plan: Plan, telemetry: "pd.DataFrame", windows: Sequence[Window], hardware: Mapping[str, HardwareFigures]
) -> list[Finding]:
    """Return everything that telemetry says against the comparison."""
    findings: list[Finding] = []
    for arm in (plan.a, plan.b):
        own = [w for w in windows if w.arm == arm]
        findings += [*_gaps(plan, telemetry, own, arm), *_throttles(telemetry, own, arm), *_energy(plan, hardware[arm], arm)]
    return findings


def longest_gap_s(times: Times, start_ns: int, end_ns: int) -> float:
    """Return the longest time between two samples that touches a window, in seconds; without samples outside, its edges count."""
    first = int(np.searchsorted(times, start_ns, side="right")) - 1
    last = int(np.searchsorted(times, end_ns, side="left"))
    before, after = ([] if first >= 0 else [start_ns]), ([] if last < len(times) else [end_ns])
    return float(np.diff(np.concatenate((before, times[max(0, first) : last + 1], after))).max(initial=0)) / 1e9


def _gaps(plan: Plan, telemetry: "pd.DataFrame", windows: Sequence[Window], arm: str) -> list[Finding]:
    if plan.pools[arm].is_cpu:
        return _gap(plan, sample_times(telemetry), windows, arm, "telemetry")
    findings = []
    if any(not w.gpus for w in windows):
        findings.append(Finding(reason=Reason.TELEMETRY_GAP, detail="answers do not name the GPU that gave them", arm=arm))
    for gpu in sorted({gpu for w in windows for gpu in w.gpus}):
        own = [w for w in windows if gpu in w.gpus]
        findings += _gap(plan, gpu_sample_times(telemetry, gpu), own, arm, f"telemetry of {gpu}")
    return findings


def _gap(plan: Plan, times: Times, windows: Iterable[Window], arm: str, what: str) -> list[Finding]:
    gaps = [(longest_gap_s(times, w.start_ns, w.end_ns), w.run) for w in windows]
    worst, run = max(gaps, default=(0.0, 0))
    if worst <= plan.limits.telemetry_gap_s:
        return []
    detail = f"{what} is silent for {worst:.1f} s in run {run}; {plan.limits.telemetry_gap_s:g} s is allowed"
    return [Finding(reason=Reason.TELEMETRY_GAP, detail=detail, arm=arm)]


def _throttles(telemetry: "pd.DataFrame", windows: Sequence[Window], arm: str) -> list[Finding]:
    runs: dict[Reason, set[int]] = {}
    for metric, shows in (("gpu_throttle_active", _ever_active), ("gpu_throttle_seconds_total", _ever_rising)):
        for series in select(telemetry, metric):
            reason = THROTTLES.get(series.labels.get("reason", ""))
            if reason is not None:
                hit = {w.run for w in windows if series.labels.get("gpu_uuid") in w.gpus and shows(series, w)}
                runs.setdefault(reason, set()).update(hit)
    return [
        Finding(reason=reason, detail=f"active in {counted(len(hit), 'counted run')}, first in run {min(hit)}", arm=arm)
        for reason, hit in sorted(runs.items())
        if hit
    ]


def _ever_active(series: Series, window: Window) -> bool:
    return bool(np.any(series.between(window.start_ns, window.end_ns).values > 0))


def _ever_rising(series: Series, window: Window) -> bool:
    """Say whether a counter rose between the last sample before a window and the first one after it."""
    before = np.searchsorted(series.t_ns, window.start_ns, side="right") - 1
    after = np.searchsorted(series.t_ns, window.end_ns, side="left")
    values = series.values[max(0, int(before)) : int(after) + 1]
    return bool(np.any(np.diff(values) > 0))


def _energy(plan: Plan, figures: HardwareFigures, arm: str) -> list[Finding]:
    counter, integrated = figures.energy_j, figures.integrated_energy_j
    if figures.method != "counter" or not counter or integrated is None:
        return []
    apart = abs(integrated - counter) / counter
    if apart <= plan.limits.energy_disagreement:
        return []
    detail = f"counter {counter:.4g} J, integral of power {integrated:.4g} J: {apart:.1%} apart, {plan.limits.energy_disagreement:.0%} is allowed"
    return [Finding(reason=Reason.ENERGY_DISAGREES, detail=detail, arm=arm)]
