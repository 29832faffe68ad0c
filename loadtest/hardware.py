"""Say what the hardware did during an arm's counted runs: energy, power, temperature, clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from bakeoff.closed import Closed
from loadtest.telemetry_series import Series, select

if TYPE_CHECKING:
    import pandas as pd

SHORT_WINDOW_S = 60
"""Window below which a mean of power or energy is marked: readings are themselves averages over up to a second."""
EDGE_NS = 3_000_000_000
"""Farthest sample from a window's edge that a counter is still read from."""
NOT_MEASURED = "not measured: no GPU telemetry"


@dataclass(frozen=True)
class Window:
    """Bound one counted run in time, from its first due request to its last answer, and name the cards that answered."""

    run: int
    arm: str
    start_ns: int
    end_ns: int
    gpus: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Return the window's length."""
        return (self.end_ns - self.start_ns) / 1e9


class HardwareFigures(Closed):
    """Hold what an arm's cards drew and reached; absent figures were not measured."""

    window_s: float
    """Length of all counted runs together."""
    energy_j: float | None = None
    """Energy of all cards that answered."""
    method: Literal["counter", "integrated"] | None = None
    """Whether energy is the difference of a counter or an integral of power."""
    integrated_energy_j: float | None = None
    """Integral of power, the cross-check of the counter."""
    mean_power_w: float | None = None
    """energy_j over window_s."""
    temperature_max_c: float | None = None
    sm_clock_mean_hz: float | None = None
    note: str = Field(default="")
    """Why a figure is absent, or what limits it."""


def hardware_figures(telemetry: "pd.DataFrame", windows: Sequence[Window], shared: frozenset[str]) -> HardwareFigures:
    """Return an arm's hardware figures over its windows; cards in `shared` also served another arm."""
    length = sum(w.seconds for w in windows)
    cards = sorted({gpu for w in windows for gpu in w.gpus})
    if not cards or not any(select(telemetry, "gpu_up", gpu_uuid=gpu) or _any_power(telemetry, gpu) for gpu in cards):
        return HardwareFigures(window_s=length, note=NOT_MEASURED)
    counter = None if shared.intersection(cards) else _energy(telemetry, windows, "counter")
    integrated = None if shared.intersection(cards) else _energy(telemetry, windows, "integrated")
    energy = counter if counter is not None else integrated
    return HardwareFigures(
        window_s=length,
        energy_j=energy,
        method=None if energy is None else "integrated" if counter is None else "counter",
        integrated_energy_j=integrated,
        mean_power_w=None if energy is None or length <= 0 else energy / length,
        temperature_max_c=_extreme(telemetry, windows),
        sm_clock_mean_hz=_mean(telemetry, windows, "gpu_clock_hertz", "domain", "sm"),
        note=_note(windows, cards, shared, energy),
    )


def counter_difference(series: Series, start_ns: int, end_ns: int) -> float | None:
    """Return what a counter rose by in a window, read between samples linearly; None without samples at both edges or after a reset."""
    near = series.between(start_ns - EDGE_NS, end_ns + EDGE_NS)
    if len(near.t_ns) < 2 or near.t_ns[0] > start_ns + EDGE_NS or near.t_ns[-1] < end_ns - EDGE_NS:
        return None
    if np.any(np.diff(near.values) < 0):
        return None
    first, last = np.interp([start_ns, end_ns], near.t_ns.astype(float), near.values)
    return float(last - first)


def power_integral(series: Series, start_ns: int, end_ns: int) -> float | None:
    """Return the trapezoidal integral of power samples over a window, in joules; None without samples at both edges."""
    near = series.between(start_ns - EDGE_NS, end_ns + EDGE_NS)
    if len(near.t_ns) < 2 or near.t_ns[0] > start_ns + EDGE_NS or near.t_ns[-1] < end_ns - EDGE_NS:
        return None
    inside = near.between(start_ns, end_ns)
    t = np.concatenate(([start_ns], inside.t_ns, [end_ns]))
    power = np.interp(t.astype(float), near.t_ns.astype(float), near.values)
    return float(np.trapezoid(power, (t - start_ns) / 1e9))


def _energy(telemetry: "pd.DataFrame", windows: Sequence[Window], source: Literal["counter", "integrated"]) -> float | None:
    """Return the energy of all cards over all windows from one source, or None when any part of it is unknown."""
    parts: list[float | None] = []
    for gpu in sorted({gpu for w in windows for gpu in w.gpus}):
        own = [w for w in windows if gpu in w.gpus]
        parts += _card_energy(telemetry, own, gpu, source)
    known = [joules for joules in parts if joules is not None]
    return sum(known) if known and len(known) == len(parts) else None


def _card_energy(telemetry: "pd.DataFrame", windows: Sequence[Window], gpu: str, source: str) -> list[float | None]:
    """Return a card's energy in each window: from its counter, or else, as `integrated`, from its power."""
    counters = select(telemetry, "gpu_energy_joules_total", gpu_uuid=gpu, source=source)
    if counters:
        return [counter_difference(counters[0], w.start_ns, w.end_ns) for w in windows]
    power = _power(telemetry, gpu) if source == "integrated" else []
    return [power_integral(power[0], w.start_ns, w.end_ns) if power else None for w in windows]


def _power(telemetry: "pd.DataFrame", gpu: str) -> list[Series]:
    """Return a card's power series, the least averaged first."""
    found = select(telemetry, "gpu_power_draw_watts", gpu_uuid=gpu)
    return sorted(found, key=lambda series: series.labels.get("window") != "instant")


def _any_power(telemetry: "pd.DataFrame", gpu: str) -> bool:
    return bool(_power(telemetry, gpu) or select(telemetry, "gpu_energy_joules_total", gpu_uuid=gpu))


def _samples(telemetry: "pd.DataFrame", windows: Sequence[Window], metric: str, **labels: str) -> list[float]:
    found: list[float] = []
    for gpu in sorted({gpu for w in windows for gpu in w.gpus}):
        for series in select(telemetry, metric, gpu_uuid=gpu, **labels):
            for window in windows:
                if gpu in window.gpus:
                    found.extend(series.between(window.start_ns, window.end_ns).values.tolist())
    return found


def _extreme(telemetry: "pd.DataFrame", windows: Sequence[Window]) -> float | None:
    return max(_samples(telemetry, windows, "gpu_temperature_celsius", sensor="gpu"), default=None)


def _mean(telemetry: "pd.DataFrame", windows: Sequence[Window], metric: str, label: str, value: str) -> float | None:
    found = _samples(telemetry, windows, metric, **{label: value})
    return float(np.mean(found)) if found else None


def _note(windows: Sequence[Window], cards: Sequence[str], shared: frozenset[str], energy: float | None) -> str:
    if shared.intersection(cards):
        return "the card also serves another arm: its energy is shared and not attributable"
    if energy is None:
        return "no energy: the telemetry does not cover both ends of every run"
    if min(w.seconds for w in windows) < SHORT_WINDOW_S:
        return f"energy over runs shorter than {SHORT_WINDOW_S} s: read it as approximate"
    return ""
