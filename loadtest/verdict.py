"""Say which arm wins, by how much, with an interval, or that the data does not decide."""

from collections.abc import Sequence
from enum import StrEnum

from pydantic import Field

from bakeoff.closed import Closed
from loadtest.accuracy_record import ArmAccuracy
from loadtest.aggregates import ArmFigures, RunFigures
from loadtest.cost import Cost
from loadtest.hardware import HardwareFigures
from loadtest.intervals import Estimate
from loadtest.plan import Depth
from loadtest.planning import PrimaryMetric
from loadtest.reasons import Finding


class Outcome(StrEnum):
    """Name what a comparison found."""

    A_BETTER = "A_BETTER"
    B_BETTER = "B_BETTER"
    EQUIVALENT = "EQUIVALENT"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"


class NoPurchase(StrEnum):
    """Name why a verdict is none to buy on."""

    SMOKE_DEPTH = "smoke depth"
    DEMONSTRATION = "demonstration"
    SIMULATED = "simulated"
    UNDECIDED = "undecided"
    INVALID = "invalid"


DECIDED = frozenset({Outcome.A_BETTER, Outcome.B_BETTER, Outcome.EQUIVALENT})


class Comparison(Closed):
    """Hold the primary metric's ratio B over A and what the tests say of it."""

    metric: PrimaryMetric
    ratio: float
    low: float
    high: float
    """Interval of the ratio at `confidence`."""
    confidence: float
    blocks: dict[int, float]
    """Ratio of each block."""
    p_sign_flip: float
    """Two-sided p value of the sign-flip permutation."""
    p_equivalence: float
    """p value of two one-sided tests against `band_low` and `band_high`."""
    band_low: float
    band_high: float
    """Ratios between which arms count as equivalent."""
    aa_floor: float | None
    """Largest ratio, as a value of at least 1, that A/A blocks showed; null without such blocks."""
    blocks_needed: int | None
    """Blocks that would decide at the spread seen; null when decided, or when no practical number would."""


class Verdict(Closed):
    """Hold the whole result of a comparison, computed from the raw files of its run folder alone."""

    schema_version: int = 1
    experiment: str
    model: str
    a: str
    b: str
    depth: Depth
    plan_digest: str
    evidence: dict[str, str]
    """SHA-256 of each raw file."""
    outcome: Outcome
    sentence: str
    """The outcome in plain words."""
    purchase: bool
    """Whether a purchase may rest on it."""
    not_purchase_because: tuple[NoPurchase, ...]
    simulated: tuple[str, ...]
    """Arms whose figures come from a simulated engine or device."""
    comparison: Comparison | None
    reasons: tuple[Finding, ...]
    """What makes the comparison invalid."""
    notes: tuple[str, ...]
    """What a reader has to know beside it."""
    arms: dict[str, ArmFigures]
    runs: tuple[RunFigures, ...]
    hardware: dict[str, HardwareFigures]
    accuracy: dict[str, ArmAccuracy] = Field(default_factory=dict)
    cost: dict[str, Cost]
    break_even_b_per_hour: float | None
    """Hourly cost of B's node at which its good requests cost what A's do."""


def judge(found: Estimate, threshold: float, alpha: float, p_sign_flip: float, p_equivalence: float) -> Outcome:
    """Return the outcome of a valid comparison of latencies; `threshold` is the least log ratio a claim must clear.

    A claim needs its whole interval beyond the threshold and a sign-flip test that agrees; lower latency is better.
    """
    significant = p_sign_flip <= alpha
    if found.high < -threshold and significant:
        return Outcome.B_BETTER
    if found.low > threshold and significant:
        return Outcome.A_BETTER
    return Outcome.EQUIVALENT if p_equivalence < alpha else Outcome.INCONCLUSIVE


def purchase_objections(
    depth: Depth, outcome: Outcome, simulated: Sequence[str], *, demonstration: bool
) -> tuple[NoPurchase, ...]:
    """Return every reason for which nothing should be bought on a verdict."""
    objections = {
        NoPurchase.SMOKE_DEPTH: depth is Depth.SMOKE,
        NoPurchase.DEMONSTRATION: demonstration,
        NoPurchase.SIMULATED: bool(simulated),
        NoPurchase.UNDECIDED: outcome is Outcome.INCONCLUSIVE,
        NoPurchase.INVALID: outcome is Outcome.INVALID,
    }
    return tuple(objection for objection, holds in objections.items() if holds)
