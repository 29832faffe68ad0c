"""Print a verdict as tables in a terminal."""

from rich.console import Console
from rich.panel import Panel
from rich.table import Table

from loadtest import wording
from loadtest.reasons import EXPLANATIONS
from loadtest.report_rows import arm_rows
from loadtest.verdict import Outcome, Verdict

STYLES = {
    Outcome.A_BETTER: "green",
    Outcome.B_BETTER: "green",
    Outcome.EQUIVALENT: "cyan",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.INVALID: "red",
}


def print_verdict(console: Console, verdict: Verdict) -> None:
    """Print outcome, ratio, arms, reasons and notes."""
    console.print(_banner(verdict))
    console.print(_arms(verdict))
    for finding in verdict.reasons:
        where = f" ({finding.arm})" if finding.arm else ""
        console.print(f"[bold red]{finding.reason}[/]{where}: {finding.detail}. {EXPLANATIONS[finding.reason]}", highlight=False)
    for note in verdict.notes:
        console.print(f"- {note}", highlight=False, markup=False)


def _banner(verdict: Verdict) -> Panel:
    lines = [verdict.sentence]
    if verdict.comparison is not None:
        found = verdict.comparison
        valid = "not valid: " if verdict.outcome is Outcome.INVALID else ""
        lines.append(
            f"{valid}{wording.metric_name(found.metric)}, B/A: {wording.interval(found.ratio, found.low, found.high)} "
            f"({found.confidence:.0%} interval over {len(found.blocks)} blocks, sign-flip p = {found.p_sign_flip:.2g})"
        )
    if not verdict.purchase:
        lines.append(f"NOT A PURCHASE VERDICT: {', '.join(verdict.not_purchase_because)}.")
    if verdict.simulated:
        lines.append(f"SIMULATED: {', '.join(verdict.simulated)}.")
    return Panel(
        "\n".join(lines), title=f"{verdict.experiment}: {verdict.outcome}", border_style=STYLES[verdict.outcome], expand=True
    )


def _arms(verdict: Verdict) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("")
    for letter, arm in (("A", verdict.a), ("B", verdict.b)):
        mark = " SIMULATED" if arm in verdict.simulated else ""
        table.add_column(f"{letter}: {arm}{mark}", justify="right")
    for row in arm_rows(verdict):
        table.add_row(row.name, row.a, row.b)
    return table
