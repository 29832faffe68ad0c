"""Draw a report's pictures as SVG text that needs nothing from outside."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from loadtest.hardware import Window
from loadtest.telemetry_series import Series, Values, gpus, select
from loadtest.verdict import Comparison

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#17607d", "#c2571a")
"""Arms A and B; distinguishable in print and with the common colour blindnesses."""
INK, FAINT, BAND = "#25303b", "#d5dbe1", "#e8eef2"
STYLE: dict[Any, Any] = {
    "axes.edgecolor": "#8b97a3",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "path",
    "xtick.color": INK,
    "ytick.color": INK,
}
CURVE_POINTS = 1_000
THROTTLED = "throttled"
ONE_SECOND_NS = 1_000_000_000


def block_ratios(found: Comparison) -> str:
    """Draw each block's ratio B over A, the mean with its interval, and the band of equivalence."""
    with _styled():
        figure, axes = _figure(7.2, 0.34 * (len(found.blocks) + 1) + 1.0)
        axes.axvspan(found.band_low, found.band_high, color=BAND, zorder=0, label="too small to matter")
        axes.axvline(1, color="#8b97a3", linewidth=1)
        places = np.arange(len(found.blocks), 0, -1)
        axes.plot(list(found.blocks.values()), places, "o", color=INK, markersize=5, label="one block")
        error = [[found.ratio - found.low], [found.high - found.ratio]]
        axes.errorbar(
            [found.ratio],
            [0],
            xerr=error,
            fmt="D",
            color=COLOURS[1],
            capsize=4,
            markersize=7,
            linewidth=2,
            label="mean, interval",
        )
        axes.set_yticks([*places, 0], [*(f"block {k}" for k in found.blocks), "all"])
        axes.set_ylim(-0.7, len(found.blocks) + 0.7)
        axes.set_xlabel("B / A (below 1: B is faster)")
        _legend_above(axes, columns=3)
        return _svg(figure, "block-ratios")


def latency_cdf(rows: "pd.DataFrame", arms: tuple[str, str], slo_s: float | None) -> str:
    """Draw the share of scheduled requests answered within a time; a curve that ends below 1 shows what was never answered."""
    with _styled():
        figure, axes = _figure(5.4, 3.3)
        for arm, colour in zip(arms, COLOURS, strict=True):
            latency, share = _curve(rows[rows["arm"] == arm]["latency_s"].to_numpy())
            axes.step(latency * 1e3, share, where="post", color=colour, label=arm, linewidth=1.6)
        if slo_s is not None:
            axes.axvline(slo_s * 1e3, color=INK, linestyle="--", linewidth=1)
            axes.annotate("SLO", (slo_s * 1e3, 0.03), xytext=(4, 0), textcoords="offset points")
        axes.set(xscale="log", xlabel="latency from the due time, ms", ylabel="share of scheduled requests", ylim=(0, 1.02))
        _plain_ticks(axes)
        _legend_above(axes)
        return _svg(figure, "latency-cdf")


def _curve(latency_s: Values) -> tuple[Values, Values]:
    """Return at most CURVE_POINTS answered latencies, ascending, and the share of all requests each one covers."""
    ordered = np.sort(latency_s)
    share = np.arange(1, len(ordered) + 1) / max(1, len(ordered))
    answered = int(np.isfinite(ordered).sum())
    kept = np.unique(np.linspace(0, answered - 1, min(answered, CURVE_POINTS)).astype(int)) if answered else np.arange(0)
    return ordered[kept], share[kept]


def throughput(rows: "pd.DataFrame", windows: Sequence[Window], arms: tuple[str, str]) -> str | None:
    """Draw good answers a second over the whole comparison, in A B B A order; None without counted runs."""
    if not windows:
        return None
    with _styled():
        figure, axes = _figure(11, 2.9)
        start = min(w.start_ns for w in windows)
        for arm, colour in zip(arms, COLOURS, strict=True):
            for i, window in enumerate(w for w in windows if w.arm == arm):
                t, rate = _rate(rows[rows["run"] == window.run], window, start)
                axes.step(t, rate, where="post", color=colour, linewidth=1.3, label=arm if i == 0 else None)
        axes.set(xlabel="time since the first counted run, s", ylabel="good answers per second")
        axes.set_ylim(bottom=0)
        _legend_above(axes)
        return _svg(figure, "throughput")


def batch_sizes(rows: "pd.DataFrame", arms: tuple[str, str]) -> str | None:
    """Draw which share of each arm's requests ran in a batch of which size; None when no answer says."""
    known = rows[rows["batch_size"].notna()]
    if known.empty:
        return None
    with _styled():
        figure, axes = _figure(5.4, 3.3)
        sizes = sorted({int(size) for size in known["batch_size"].unique()})
        for offset, arm, colour in zip((-0.2, 0.2), arms, COLOURS, strict=True):
            own = known[known["arm"] == arm]["batch_size"].astype(int)
            shares = [float((own == size).mean()) if len(own) else 0.0 for size in sizes]
            axes.bar(np.arange(len(sizes)) + offset, shares, width=0.38, color=colour, label=arm)
        step = max(1, len(sizes) // 16)
        axes.set_xticks(np.arange(len(sizes))[::step], [str(size) for size in sizes[::step]])
        axes.set(xlabel="items in the executed batch", ylabel="share of answered requests")
        axes.grid(visible=False, axis="x")
        _legend_above(axes)
        return _svg(figure, "batch-sizes")


def telemetry(samples: "pd.DataFrame", windows: Sequence[Window], arms: tuple[str, str]) -> str | None:
    """Draw power, temperature, SM clock and throttling of each GPU over the counted runs; None without GPU series."""
    panels = [panel for panel in _panels(samples) if panel[1]]
    if not panels or not windows:
        return None
    with _styled():
        figure = _blank(11, 1.7 * len(panels) + 0.5)
        start, cards = min(w.start_ns for w in windows), _card_names(samples)
        grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, (title, found, scale) in zip(grid, panels, strict=True):
            _shade(axes, windows, arms, start)
            for series, style in zip(found, _styles(), strict=False):
                t = (series.t_ns - start) / ONE_SECOND_NS
                axes.plot(t, series.values * scale, label=cards[series.labels.get("gpu_uuid", "")], color=INK, **style)
            axes.set_ylabel(title)
            if title == THROTTLED:
                axes.set(yticks=[0, 1], yticklabels=["no", "yes"], ylim=(-0.2, 1.2))
        grid[-1].set_xlabel("time since the first counted run, s (shaded: runs of A blue, of B orange)")
        _legend_above(grid[0])
        return _svg(figure, "telemetry")


def _panels(samples: "pd.DataFrame") -> list[tuple[str, list[Series], float]]:
    power = select(samples, "gpu_power_draw_watts")
    instant = [s for s in power if s.labels.get("window") == "instant"]
    throttle = [s for s in select(samples, "gpu_throttle_active") if s.labels.get("reason") not in {"gpu_idle", "sw_power_cap"}]
    return [
        ("power, W", instant or power, 1),
        ("temperature, °C", select(samples, "gpu_temperature_celsius", sensor="gpu"), 1),
        ("SM clock, MHz", select(samples, "gpu_clock_hertz", domain="sm"), 1e-6),
        (THROTTLED, _any_active(samples, throttle), 1),
    ]


def _any_active(samples: "pd.DataFrame", throttle: Sequence[Series]) -> list[Series]:
    """Join a GPU's throttle reasons into one series: 1 while any of them is active."""
    joined = []
    for gpu in gpus(samples):
        own = [s for s in throttle if s.labels.get("gpu_uuid") == gpu]
        if own:
            t = np.unique(np.concatenate([s.t_ns for s in own]))
            active = np.zeros(len(t))
            for series in own:
                active[np.searchsorted(t, series.t_ns)] += series.values
            joined.append(Series(own[0].labels, t, (active > 0).astype(float)))
    return joined


def _card_names(samples: "pd.DataFrame") -> dict[str, str]:
    """Return how each GPU is called in a legend: its pool, and its product name, which says when it is simulated."""
    names = {
        s.labels.get("gpu_uuid", ""): f"{s.labels.get('pool', '')}: {s.labels.get('name', '')}"
        for s in select(samples, "gpu_info")
    }
    return {gpu: names.get(gpu, gpu) for gpu in gpus(samples)}


def _styles() -> list[dict[str, Any]]:
    return [{"linestyle": line, "linewidth": 1.1} for line in ("-", "--", ":", "-.")] * 4


def _shade(axes: "Axes", windows: Sequence[Window], arms: tuple[str, str], start_ns: int) -> None:
    for window in windows:
        edges = ((window.start_ns - start_ns) / ONE_SECOND_NS, (window.end_ns - start_ns) / ONE_SECOND_NS)
        axes.axvspan(*edges, color=COLOURS[arms.index(window.arm)], alpha=0.12, linewidth=0)


def _rate(rows: "pd.DataFrame", window: Window, start_ns: int) -> tuple[list[float], list[float]]:
    """Return bin edges and good answers a second in whole seconds of a run, closed with zeros at both ends.

    A last bin shorter than half a second is joined with the one before it.
    """
    done = rows[rows["ok"]]["done_ns"].to_numpy(dtype="int64")
    length_s = (window.end_ns - window.start_ns) / ONE_SECOND_NS
    bins = max(1, round(length_s))
    counts, edges = np.histogram((done - window.start_ns) / ONE_SECOND_NS, bins=bins, range=(0, max(length_s, 1e-9)))
    offset = (window.start_ns - start_ns) / ONE_SECOND_NS
    rates = counts / np.diff(edges)
    return [offset, *(edges + offset)], [0.0, *rates.tolist(), 0.0]


def _plain_ticks(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _legend_above(axes: "Axes", columns: int = 1) -> None:
    """Put the legend above the axes, where even the longest arm names fit one below the other."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.2, handlelength=1.6)


def _figure(width: float, height: float) -> "tuple[Figure, Axes]":
    figure = _blank(width, height)
    return figure, figure.subplots()


def _blank(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


@contextmanager
def _styled() -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield


def _svg(figure: "Figure", name: str) -> str:
    """Return the figure as an `<svg>` element whose ids carry the picture's name, since all pictures share one page."""
    import matplotlib as mpl

    buffer = io.StringIO()
    salt: dict[Any, Any] = {"svg.hashsalt": name}
    with mpl.rc_context(salt):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    return _named_ids(re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL), name)


def _named_ids(svg: str, name: str) -> str:
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    return re.sub(r"url\(#", f"url(#{name}-", svg)
