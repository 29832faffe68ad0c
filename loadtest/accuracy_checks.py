"""Check a comparison's accuracy record against the gate that the plan fixed."""

from bakeoff.experiment import AccuracyGate
from loadtest.accuracy_record import AccuracyRecord, ArmAccuracy
from loadtest.plan import Plan
from loadtest.reasons import Finding, Reason


def accuracy_findings(plan: Plan, record: AccuracyRecord | None) -> list[Finding]:
    """Return a finding for each arm that does not demonstrably pass the plan's gate; none when there is no gate."""
    if plan.accuracy is None:
        return []
    findings = []
    for arm in (plan.a, plan.b):
        fault = _fault(plan.accuracy, None if record is None else record.arms.get(arm))
        if fault is not None:
            findings.append(Finding(reason=Reason.ACCURACY_GATE, detail=fault, arm=arm))
    return findings


def meets(gate: AccuracyGate, ratio: float | None, ratio_lower95: float | None) -> bool:
    """Say whether the figure that the gate holds against its ratio is there and high enough."""
    figure = ratio if gate.bound == "point" else ratio_lower95
    return figure is not None and figure >= gate.ratio


def _fault(gate: AccuracyGate, found: ArmAccuracy | None) -> str | None:
    if found is None:
        return "the gate was not run"
    if (found.dataset, found.bound, found.required) != (gate.dataset, gate.bound, gate.ratio):
        return f"the gate was run as {found.dataset}, {found.bound} >= {found.required:g}; the plan has {gate.dataset}, {gate.bound} >= {gate.ratio:g}"
    if found.ratio is None:
        return f"the gate was not run: {found.note}"
    if not (found.passed and meets(gate, found.ratio, found.ratio_lower95)):
        figure = found.ratio if gate.bound == "point" else found.ratio_lower95
        shown = "unknown" if figure is None else f"{figure:.2%}"
        return f"keeps {shown} of the reference's accuracy ({gate.bound}); {gate.ratio:.2%} is required"
    return None
