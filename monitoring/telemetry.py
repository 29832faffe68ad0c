"""Read single series out of recorded telemetry, and say what it did not measure."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bakeoff.metrics import BY_NAME

if TYPE_CHECKING:
    import pandas as pd

MEASURED_BY: Mapping[str, tuple[str, ...]] = {
    "power": ("gpu_power_draw_watts",),
    "energy": ("gpu_energy_joules_total",),
    "temperature": ("gpu_temperature_celsius",),
    "throttling": ("gpu_throttle_active", "gpu_throttle_seconds_total"),
    "utilisation": ("gpu_utilization_ratio",),
}
"""Which series show that something was measured."""


def series(frame: "pd.DataFrame", name: str, **labels: str) -> dict[str, list[tuple[float, float]]]:
    """Return (Unix seconds, value) samples of a declared metric by the JSON of their labels; `labels` narrows them."""
    rows = frame[frame["metric"] == BY_NAME[name].full_name].sort_values("t_unix_ns", kind="stable")
    found: dict[str, list[tuple[float, float]]] = {}
    for t_ns, text, value in zip(rows["t_unix_ns"], rows["labels"], rows["value"], strict=True):
        found.setdefault(text, []).append((t_ns / 1e9, value))
    wanted = labels.items()
    return {text: samples for text, samples in found.items() if wanted <= json.loads(text).items()}


def not_measured(frame: "pd.DataFrame") -> tuple[str, ...]:
    """Return what has no series at all, such as power and temperature on a machine without a GPU."""
    present = set(frame["metric"].unique())
    return tuple(what for what, names in MEASURED_BY.items() if not any(BY_NAME[name].full_name in present for name in names))


def measurement_sentence(frame: "pd.DataFrame") -> str:
    """Say in words what telemetry lacks, for a report; empty when it lacks nothing."""
    missing = not_measured(frame)
    if not missing:
        return ""
    reason = "no GPU reported them" if len(missing) == len(MEASURED_BY) else "the GPU does not report them"
    return f"Not measured: {', '.join(missing)} ({reason})."


def simulated_gpus(frame: "pd.DataFrame") -> tuple[str, ...]:
    """Return the uuids of GPUs whose figures come from a recording."""
    infos = [json.loads(text) for text in series(frame, "gpu_info")]
    return tuple(sorted(info["gpu_uuid"] for info in infos if "SIMULATED" in info["name"]))
