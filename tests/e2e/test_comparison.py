"""A whole comparison from one file: run folder, verdict, report, verification."""

import json
import subprocess
import sys

import pandas as pd
import pytest

pytestmark = pytest.mark.e2e


def bakeoff(*arguments, timeout=600):
    command = [sys.executable, "-m", "bakeoff", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.fixture(scope="module")
def run(server, tmp_path_factory):
    """Compare two arms that are the same but for their name and replicas, on the running server."""
    out = tmp_path_factory.mktemp("runs") / "aa"
    addresses = ["--url", server.http, "--grpc-url", server.grpc, "--metrics-url", server.addresses["metrics"]]
    done = bakeoff("compare", str(server.experiment), "--a", "echo-a", "--b", "echo-b", "--out", str(out), "--json", *addresses)
    assert done.returncode == 0, done.stderr
    return out, json.loads(done.stdout)


def test_an_a_a_comparison_names_no_winner(run):
    _, verdict = run
    assert verdict["outcome"] not in {"A_BETTER", "B_BETTER"}


def test_simulated_arms_are_marked_and_never_a_purchase_verdict(run):
    out, verdict = run
    assert verdict["purchase"] is False
    assert verdict["simulated"] == ["echo-a", "echo-b"]
    assert "simulated" in verdict["not_purchase_because"]
    page = (out / "report.html").read_text()
    assert "SIMULATED" in page
    assert "NOT A PURCHASE VERDICT" in page.upper()


def test_both_arms_got_the_same_schedule_in_abba_order(run):
    out, _ = run
    runs = pd.DataFrame(json.loads((out / "runs.json").read_text()))
    counted = runs[runs["block"] >= 0]
    assert [list(block["arm"]) for _, block in counted.groupby("block")] == [["echo-a", "echo-b", "echo-b", "echo-a"]] * 3
    rows = pd.read_parquet(out / "requests.parquet")
    for _, block in rows[rows["block"] >= 0].groupby("block"):
        offsets = [tuple(r["due_ns"] - r["due_ns"].min()) for _, r in block.groupby("run")]
        assert len(offsets) == 4
        assert len(set(offsets)) == 1


def test_every_row_says_which_arm_answered_and_how_long_it_waited(run):
    out, _ = run
    rows = pd.read_parquet(out / "requests.parquet")
    good = rows[rows["outcome"] == "ok"]
    assert len(good) > 0
    assert (good["served_by"] == good["arm"]).all()
    assert (good["execution_ns"] >= 4_000_000).all()
    assert (good["batch_size"] >= 1).all()


def test_the_verdict_follows_from_the_raw_records_and_a_changed_record_is_found(run, tmp_path):
    out, _ = run
    assert bakeoff("verify", str(out)).returncode == 0
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(out), str(copy)], check=True)
    rows = pd.read_parquet(copy / "requests.parquet")
    rows.loc[rows.index[-1], "done_ns"] += 5_000_000_000
    rows.to_parquet(copy / "requests.parquet", index=False)
    done = bakeoff("verify", str(copy))
    assert done.returncode == 3
    assert done.stdout.strip()


def test_a_run_folder_is_never_overwritten(server, run):
    out, _ = run
    done = bakeoff("compare", str(server.experiment), "--a", "echo-a", "--b", "echo-b", "--out", str(out))
    assert done.returncode == 2
    assert "nothing is overwritten" in done.stderr


def test_the_demonstration_runs_from_nothing_to_a_report(tmp_path):
    """The README's `make demo`, whole: real model, two arms, accuracy gate, load, verdict, report."""
    out = tmp_path / "demo"
    done = bakeoff("demo", "--out", str(out), "--json")
    assert done.returncode == 0, done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["outcome"] in {"A_BETTER", "B_BETTER", "EQUIVALENT", "INCONCLUSIVE", "INVALID"}
    assert verdict["purchase"] is False
    accuracy = json.loads((out / "accuracy.json").read_text())["arms"]
    assert accuracy["efficientnet-lite0-fp32-cpu"]["top1"] == pytest.approx(0.865, abs=0.02)
    passed = accuracy["efficientnet-lite0-int8-cpu"]["passed"]
    assert passed or "ACCURACY_GATE" in json.dumps(verdict)
    rows = pd.read_parquet(out / "requests.parquet")
    assert (rows["outcome"] == "ok").mean() > 0.99
    page = (out / "report.html").read_text()
    assert "not measured" in page
    assert "demonstration" in page.lower()
    assert "https://" not in page.replace("http://www.w3.org", "")
    assert bakeoff("verify", str(out)).returncode == 0
