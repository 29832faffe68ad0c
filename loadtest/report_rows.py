"""Lay out the figures of two arms side by side, as a report and a terminal show them."""

from collections.abc import Callable
from dataclasses import dataclass

from loadtest import wording
from loadtest.hardware import NOT_MEASURED, HardwareFigures
from loadtest.planning import PERCENTILES
from loadtest.sample_size import required_samples
from loadtest.verdict import Verdict

LATE = "beyond the timeout"


@dataclass(frozen=True)
class Row:
    """Hold one line of the table: what it is, how it is defined, and both arms' figures as text."""

    name: str
    a: str
    b: str
    hint: str = ""


def arm_rows(verdict: Verdict) -> list[Row]:
    """Return the table's lines in order."""
    return [*_load_rows(verdict), *_latency_rows(verdict), *_server_rows(verdict), *_evidence_rows(verdict)]


def _row(verdict: Verdict, name: str, text: Callable[[str], str], hint: str = "") -> Row:
    return Row(name, text(verdict.a), text(verdict.b), hint)


def _load_rows(verdict: Verdict) -> list[Row]:
    arms = verdict.arms
    return [
        _row(verdict, "precision", lambda arm: arms[arm].precision),
        _row(verdict, "accelerator", lambda arm: arms[arm].accelerator),
        _row(
            verdict,
            "requests",
            lambda arm: f"{arms[arm].requests:,} in {arms[arm].runs} runs",
            "scheduled requests of all counted runs",
        ),
        _row(
            verdict,
            "errors",
            lambda arm: _errors(verdict, arm),
            "every request without a good answer: failed, refused, timed out, never sent",
        ),
        _row(
            verdict,
            "mean rate",
            lambda arm: f"{wording.significant(arms[arm].rate_per_s)} /s",
            "good answers a second of schedule",
        ),
        _row(
            verdict,
            "goodput at SLO",
            lambda arm: _goodput(verdict, arm),
            "good answers within the SLO a second, share of all scheduled requests",
        ),
    ]


def _errors(verdict: Verdict, arm: str) -> str:
    figures = verdict.arms[arm]
    return f"{figures.failed:,} ({figures.error_share:.2%})"


def _goodput(verdict: Verdict, arm: str) -> str:
    figures = verdict.arms[arm]
    if figures.within_slo is None:
        return "no SLO that the records can judge"
    return f"{wording.significant(figures.goodput_per_s)} /s ({figures.within_slo:.1%})"


def _latency_rows(verdict: Verdict) -> list[Row]:
    hint = "from the due time; geometric mean of the runs' percentiles"
    return [
        _row(verdict, f"p{share * 100:.0f} latency", lambda arm, m=metric: _latency(verdict, arm, m), hint)  # type: ignore[misc]
        for metric, share in reversed(PERCENTILES.items())
    ]


def _latency(verdict: Verdict, arm: str, metric: str) -> str:
    value = verdict.arms[arm].latency_s[metric]
    if value is not None:
        return wording.milliseconds(value)
    needed = required_samples({**PERCENTILES}[metric])  # type: ignore[index]
    short = any(run.requests < needed for run in verdict.runs if run.arm == arm)
    return f"too few requests (needs {needed} a run)" if short else LATE


def _server_rows(verdict: Verdict) -> list[Row]:
    arms = verdict.arms
    return [
        _row(
            verdict,
            "mean batch size",
            lambda arm: wording.significant(arms[arm].batch_size),
            "over executed batches, as the answers say",
        ),
        _row(
            verdict, "queue time", lambda arm: wording.milliseconds(arms[arm].queue_s), "median over requests, as the answers say"
        ),
        _row(
            verdict,
            "execution time",
            lambda arm: wording.milliseconds(arms[arm].execution_s),
            "median over requests, as the answers say",
        ),
    ]


def _evidence_rows(verdict: Verdict) -> list[Row]:
    return [
        _row(
            verdict,
            "accuracy (top-1)",
            lambda arm: _accuracy(verdict, arm),
            "through the serving path; ratio to the FP32 reference",
        ),
        _row(verdict, f"cost per million good requests ({_basis(verdict)})", lambda arm: _cost(verdict, arm)),
        _row(
            verdict,
            "PPSD",
            lambda arm: wording.significant(verdict.cost[arm].ppsd),
            "(1 / median latency) * (hours / fee), the index as its formula says",
        ),
        _row(verdict, "energy per good request", lambda arm: _energy(verdict, arm)),
        _row(verdict, "mean power", lambda arm: _hardware(verdict.hardware[arm], verdict.hardware[arm].mean_power_w, "W")),
        _row(
            verdict,
            "highest temperature",
            lambda arm: _hardware(verdict.hardware[arm], verdict.hardware[arm].temperature_max_c, "°C"),
        ),
    ]


def _accuracy(verdict: Verdict, arm: str) -> str:
    found = verdict.accuracy.get(arm)
    if found is None or found.top1 is None:
        return "not measured"
    ratio = "" if found.ratio is None else f", {found.ratio:.1%} of FP32"
    return f"{found.top1:.1%} of {found.n}{ratio} ({'passed' if found.passed else 'not passed'})"


def _cost(verdict: Verdict, arm: str) -> str:
    cost = verdict.cost[arm]
    if cost.per_million_good is None:
        return cost.absent_because
    example = " (example price)" if cost.example else ""
    return f"{wording.significant(cost.per_million_good)} {cost.currency}{example}"


def _basis(verdict: Verdict) -> str:
    return verdict.cost[verdict.a].basis


def _energy(verdict: Verdict, arm: str) -> str:
    figures, good = verdict.hardware[arm], verdict.arms[arm].ok
    if figures.energy_j is None or not good:
        return figures.note or NOT_MEASURED
    return f"{wording.significant(figures.energy_j / good)} J ({figures.method})"


def _hardware(figures: HardwareFigures, value: float | None, unit: str) -> str:
    return (figures.note or NOT_MEASURED) if value is None else f"{wording.significant(value)} {unit}"
