"""Render a run folder as one HTML page that needs nothing from outside."""

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from loadtest import pictures, wording
from loadtest.analysis import counted_windows, verdict_of
from loadtest.folder import REPORT_FILE, RunFolder, read_folder
from loadtest.plan import Plan
from loadtest.reasons import EXPLANATIONS
from loadtest.report_rows import arm_rows
from loadtest.sample_size import required_samples
from loadtest.summary import with_latency
from loadtest.verdict import Comparison, Verdict

TEMPLATE = "report.html"


def write_report(path: Path) -> Path:
    """Write `report.html` into a run folder from its raw files and return its path."""
    folder = read_folder(path)
    verdict = verdict_of(folder)
    text = render(folder.plan, verdict, folder.environment, draw(folder, verdict.comparison))
    partial = path / (REPORT_FILE + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path / REPORT_FILE)
    return path / REPORT_FILE


def draw(folder: RunFolder, comparison: Comparison | None) -> dict[str, str]:
    """Return the SVG pictures that the folder's data supports, by name."""
    plan = folder.plan
    rows = with_latency(folder.requests, plan.slo)
    rows = rows[rows["block"] >= 0]
    windows = counted_windows(rows)
    arms = (plan.a, plan.b)
    found = {
        "blocks": None if comparison is None else pictures.block_ratios(comparison),
        "latency": pictures.latency_cdf(rows, arms, plan.slo.latency_s if plan.slo else None),
        "throughput": pictures.throughput(rows, windows, arms),
        "batches": pictures.batch_sizes(rows, arms),
        "telemetry": pictures.telemetry(folder.telemetry, windows, arms),
    }
    return {name: svg for name, svg in found.items() if svg is not None}


def render(plan: Plan, verdict: Verdict, environment: Mapping[str, object], drawn: Mapping[str, str]) -> str:
    """Return the page; `drawn` holds SVG elements by name, and a picture that is not there is replaced by a sentence."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    template = resources.files("loadtest").joinpath("templates", TEMPLATE).read_text(encoding="utf-8")
    engine = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = engine.from_string(template).render(
        plan=plan,
        verdict=verdict,
        rows=arm_rows(verdict),
        explanations={str(reason): text for reason, text in EXPLANATIONS.items()},
        environment={key: _text(value) for key, value in sorted(environment.items())},
        pictures={name: Markup(svg) for name, svg in drawn.items()},  # noqa: S704 (drawn here, from numbers and escaped names)
        words=wording,
        required=required_samples,
        run_s=max((spec.run_s for spec in plan.runs if spec.block >= 0), default=0),
        rates=sorted({spec.rate_per_s for spec in plan.runs if spec.block >= 0}),
    )
    return page if page.endswith("\n") else page + "\n"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
