"""Describe what the accuracy gate found, one record a comparison."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from bakeoff.closed import Closed

ACCURACY_FILE = "accuracy.json"


class ArmAccuracy(Closed):
    """State one arm's accuracy next to its FP32 reference; what was not measured is null."""

    dataset: str
    """Labelled set both arms answered."""
    n: int = Field(ge=0)
    """Labelled inputs answered."""
    top1: float | None = Field(ge=0, le=1)
    """Share of inputs whose most probable class is the label."""
    reference_arm: str | None
    """FP32 arm the figures are relative to."""
    reference_top1: float | None = Field(ge=0, le=1)
    """The reference's share of right answers on the same inputs."""
    ratio: float | None = Field(ge=0)
    """top1 over reference_top1."""
    ratio_lower95: float | None
    """Lower 95 % confidence bound of the ratio."""
    agreement: float | None = Field(ge=0, le=1)
    """Share of inputs on which the arm and the reference choose the same class."""
    cosine: float | None
    """Mean cosine similarity of the two arms' outputs."""
    passed: bool
    """Whether the gate lets the arm through; False also when the gate could not run."""
    bound: Literal["lower95", "point"]
    """Figure that was held against the gate's ratio."""
    required: float = Field(gt=0, le=1)
    """Least ratio the gate asks for."""
    note: str
    """What a reader has to know about these figures."""


class AccuracyRecord(Closed):
    """Hold the accuracy of every arm by arm id."""

    arms: dict[str, ArmAccuracy]

    def write(self, folder: Path) -> None:
        """Write the record into a run folder."""
        partial = folder / (ACCURACY_FILE + ".partial")
        partial.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        partial.replace(folder / ACCURACY_FILE)
