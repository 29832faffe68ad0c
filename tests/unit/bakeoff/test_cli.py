"""The command: help, and errors as one line with status 2."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bakeoff.served import parse_ready

ROOT = Path(__file__).parents[3]


def bakeoff(*arguments, timeout=120):
    command = [sys.executable, "-m", "bakeoff", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=ROOT, check=False)


def test_help_lists_every_command():
    shown = bakeoff("--help").stdout
    for command in ("serve", "load", "compare", "demo", "report", "verify", "check", "schema", "exporter"):
        assert command in shown


def test_the_command_starts_without_any_heavy_library():
    code = "import sys, bakeoff.cli; print([m for m in ('torch', 'ray', 'numpy', 'locust', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_check_prints_the_arms_and_as_json_the_whole_experiment():
    assert "echo-a: echo fp32 on cpu, 50% of its model's traffic" in bakeoff("check", "examples/echo.yaml").stdout
    assert json.loads(bakeoff("check", "examples/echo.yaml", "--json").stdout)["name"] == "echo"


def test_the_schema_is_closed_and_describes_every_field():
    schema = json.loads(bakeoff("schema").stdout)
    for name, part in {**schema["$defs"], "Experiment": schema}.items():
        if part.get("type") == "object":
            assert part["additionalProperties"] is False, name
            undescribed = [
                f for f, p in part["properties"].items() if "description" not in p and f != "kind" and "const" not in p
            ]
            assert undescribed == [] or name in {"Arm", "Plan"}, (name, undescribed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "none.yaml"), "none.yaml"),
        (("check", "examples/t4-l4-a100.yaml"), "not served yet"),
        (("compare", "examples/cpu.yaml", "--a", "efficientnet-lite0-fp32-cpu", "--b", "nope"), "no arm 'nope'"),
        (("compare", "examples/echo.yaml", "--a", "echo-a", "--b", "echo-b"), "has no workload"),
        (
            ("compare", "examples/cpu.yaml", "--a", "efficientnet-lite0-fp32-cpu", "--b", "efficientnet-lite0-fp32-cpu"),
            "give two arms",
        ),
        (("report", "none"), "none"),
        (("verify", "none"), "none"),
        (("load", "http://127.0.0.1:9", "--model", "m"), "open loop"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_status_2(arguments, message):
    done = bakeoff(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("bakeoff: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_ready_line_is_read_back():
    assert parse_ready("ready http=http://h:1 grpc=h:2\n") == {"http": "http://h:1", "grpc": "h:2"}
