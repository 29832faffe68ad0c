"""The README speaks only of what there is."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
COMMANDS = sorted({line.split()[1] for line in README.splitlines() if line.startswith(".venv/bin/bakeoff ")})


def test_it_names_commands():
    assert {"check", "serve", "load", "compare", "report", "verify"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_it_exists(command):
    done = subprocess.run([sys.executable, "-m", "bakeoff", command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0


def test_both_make_targets_of_it_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)$", README, re.MULTILINE):
        assert f"\n{target}:" in makefile


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_every_link_of_it_leads_somewhere(link):
    assert (ROOT / link).exists()


@pytest.mark.parametrize(
    "folder", sorted(p.parent for p in (ROOT / "benchmarks/results").glob("*/verdict.json")), ids=lambda p: p.name
)
def test_every_recorded_run_still_follows_from_its_raw_records(folder):
    from loadtest.verify import verify

    assert verify(folder) == []
