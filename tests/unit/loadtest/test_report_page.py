import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from bakeoff.metrics import Outcome as Ended
from loadtest.analysis import analyse, verdict_of
from loadtest.folder import read_folder
from loadtest.report import draw, render, write_report
from loadtest.terminal import print_verdict
from loadtest.verdict import Verdict

Make = Callable[..., Path]
Golden = Callable[[str, str], None]
GATE = {"dataset": "some-set", "ratio": 0.97, "bound": "point"}


class Links(HTMLParser):
    """Collect what a page would load, and whether its tags close in order."""

    VOID = frozenset({"meta", "link", "br", "img", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [v or "" for k, v in attrs if k in {"src", "href", "xlink:href", "action", "data"}]
        self.loads += [tag] if tag in {"script", "link", "iframe", "object", "embed"} else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page_of(path: Path) -> str:
    return write_report(path).read_text(encoding="utf-8")


def text_page(path: Path) -> str:
    """Return the page without pictures, whose bytes depend on the drawing library's version."""
    folder = read_folder(path)
    verdict = verdict_of(folder).model_copy(update={"evidence": {}})
    drawn = dict.fromkeys(("blocks", "latency", "throughput", "batches"), "<svg></svg>")
    return render(folder.plan, verdict, folder.environment, drawn)


def terminal_of(verdict: Verdict) -> str:
    out = StringIO()
    print_verdict(Console(file=out, width=110, color_system=None, legacy_windows=False), verdict)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


@pytest.mark.parametrize("gpu", [False, True])
def test_the_page_loads_nothing_and_closes_its_tags(run_folder: Make, gpu: bool) -> None:
    links = Links()
    page = page_of(run_folder(gpu=gpu))
    links.feed(page)
    assert links.open == []
    assert [link for link in links.loads if not link.startswith("#")] == []
    assert "url(http" not in page
    assert "@import" not in page


def test_every_picture_is_well_formed_and_no_two_share_an_id(run_folder: Make) -> None:
    page = page_of(run_folder(gpu=True))
    pictures = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert len(pictures) == 5
    ids = [i for svg in pictures for i in {e.get("id") for e in ET.fromstring(svg).iter() if e.get("id")}]
    assert len(ids) == len(set(ids))


def test_a_picture_refers_only_to_what_it_defines(run_folder: Make) -> None:
    for svg in re.findall(r"<svg.*?</svg>", page_of(run_folder()), flags=re.DOTALL):
        defined = set(re.findall(r'\bid="([^"]+)"', svg))
        used = set(re.findall(r'href="#([^"]+)"', svg)) | set(re.findall(r"url\(#([^)]+)\)", svg))
        assert used <= defined


def test_the_same_folder_gives_the_same_page(run_folder: Make) -> None:
    path = run_folder()
    assert page_of(path) == page_of(path)


def test_the_text_of_the_page_is_the_golden(run_folder: Make, golden: Golden) -> None:
    path = run_folder(noise=0.02, gate=GATE, accuracy={"net-a": 1.0, "net-b": 0.988})
    golden("report_cpu.html", text_page(path))


def test_the_terminals_tables_are_the_goldens(run_folder: Make, golden: Golden) -> None:
    verdicts = [
        analyse(run_folder(noise=0.02, gate=GATE, accuracy={"net-a": 1.0, "net-b": 0.988})),
        analyse(run_folder(noise=0.02, gpu=True, ratio=1.01)),
        analyse(run_folder(noise=0.12, simulated=True, ratio=0.9)),
        analyse(run_folder(noise=0.02, gate=GATE)),
    ]
    golden("terminal_verdicts.txt", "\n".join(terminal_of(verdict) for verdict in verdicts))


def test_a_smoke_verdict_is_marked_on_page_and_terminal(run_folder: Make) -> None:
    path = run_folder()
    assert "NOT A PURCHASE VERDICT: smoke depth, demonstration" in text_page(path)
    assert "NOT A PURCHASE VERDICT: smoke depth, demonstration" in terminal_of(analyse(path))


def test_simulated_arms_are_marked_wherever_their_figures_stand(run_folder: Make) -> None:
    path = run_folder(simulated=True)
    page = text_page(path)
    assert "SIMULATED: net-a, net-b" in page
    for arm in ("A · net-a", "B · net-b"):
        assert re.search(rf"{arm} <span class=\"tag\">SIMULATED</span>", page)
    assert terminal_of(analyse(path)).count("SIMULATED") == 3


def test_without_a_gpu_the_page_says_that_power_and_thermals_were_not_measured(run_folder: Make) -> None:
    path = run_folder()
    assert "Power and thermals were not measured" in text_page(path)
    assert "telemetry" not in draw(read_folder(path), None)


def test_a_page_of_an_invalid_comparison_names_each_reason(run_folder: Make) -> None:
    page = text_page(run_folder(gate=GATE))
    assert page.count("<dt>ACCURACY_GATE") == 2
    assert "Not valid: p90 latency" in page


def test_names_are_escaped(run_folder: Make) -> None:
    path = run_folder()
    (path / "environment.json").write_text('{"cpu": "<script>alert(1)</script>"}', encoding="utf-8")
    assert "<script>" not in page_of(path)


def test_a_comparison_without_answers_still_gives_a_page(run_folder: Make) -> None:
    def fail(requests):
        return [replace(r, outcome=Ended.ERROR, done_ns=None, first_ns=None, batch_size=None, served_by=None) for r in requests]

    page = page_of(run_folder(edit=fail, telemetry=lambda frame: frame[:0]))
    assert "INVALID" in page
    assert "There are too few complete blocks for an interval." in page
    assert "The answers do not say in which batch they ran." in page


def test_a_comparison_without_counted_requests_still_gives_a_page(run_folder: Make) -> None:
    assert "TOO_FEW_SAMPLES" in page_of(run_folder(edit=lambda requests: [r for r in requests if r.block < 0]))


def test_a_replayed_card_is_marked_in_the_telemetrys_legend(run_folder: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from loadtest.pictures import _card_names

    def replayed(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(labels=frame["labels"].str.replace("Some card", "Some card (SIMULATED)"))

    names = _card_names(read_folder(run_folder(gpu=True, telemetry=replayed)).telemetry)
    assert set(names.values()) == {"pool-a: Some card (SIMULATED)", "pool-b: Some card (SIMULATED)"}
