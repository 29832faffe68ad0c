"""What happens to requests when a replica dies or the server is told to stop."""

import signal
import subprocess
import sys
import time
import urllib.request

import pandas as pd
import psutil
import pytest

pytestmark = pytest.mark.e2e


def load(server, out, seconds=12, rate=40, model="echo"):
    command = [sys.executable, "-m", "bakeoff", "load", server.http, "--model", model, "--rate", str(rate)]
    command += ["--duration", str(seconds), "--timeout", "5", "--out", str(out), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answered(server, arm):
    with urllib.request.urlopen(server.addresses["metrics"], timeout=10) as page:
        lines = page.read().decode().splitlines()
    counts = [
        float(line.rsplit(" ", 1)[1]) for line in lines if f'requests_total{{arm="{arm}"' in line and 'outcome="ok"' in line
    ]
    return sum(counts)


def wait_until(condition, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.1)


def replicas(server, arm):
    return [p for p in server.descendants() if f"ServeReplica:{arm}:" in " ".join(p.cmdline())]


@pytest.mark.parametrize("arm", ["echo-a", "echo-b"], ids=["the only replica", "one of two replicas"])
def test_killing_a_replica_under_load_loses_no_request_silently_and_the_arm_recovers(server, tmp_path, arm):
    wait_until(lambda: len(replicas(server, arm)) == (1 if arm == "echo-a" else 2))
    before = answered(server, arm)
    generator = load(server, tmp_path, seconds=25, model=arm)
    wait_until(lambda: answered(server, arm) > before + 40)
    victim = replicas(server, arm)[0]
    victim.send_signal(signal.SIGKILL)
    _, err = generator.communicate(timeout=120)
    assert generator.returncode == 0, err
    rows = pd.read_parquet(tmp_path / "requests.parquet")
    assert rows["outcome"].notna().all()
    failed = rows[rows["outcome"] != "ok"]
    assert failed["error"].notna().all()
    assert len(failed) < len(rows) / 2
    last = rows[rows["due_ns"] > rows["due_ns"].max() - 2_000_000_000]
    assert (last["outcome"] == "ok").all()
    assert victim.pid not in [p.pid for p in replicas(server, arm)]


def test_sigterm_under_load_ends_cleanly_and_leaves_no_process(start_server, echo_experiment, tmp_path):
    start, stop = start_server
    running = start(echo_experiment, tmp_path / "log")
    family = running.descendants()
    generator = load(running, tmp_path / "load", seconds=6)
    wait_until(lambda: answered(running, "echo-a") + answered(running, "echo-b") > 40)
    assert stop(running) == 0
    generator.communicate(timeout=60)
    rows = pd.read_parquet(tmp_path / "load" / "requests.parquet")
    assert rows["outcome"].notna().all()
    assert (rows["outcome"] == "ok").sum() >= 40
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []


def test_a_front_door_that_dies_ends_the_server_with_its_reason(start_server, echo_experiment, tmp_path):
    start, stop = start_server
    running = start(echo_experiment, tmp_path / "log")
    family = running.descendants()
    front = next(p for p in family if "front.cfg" in " ".join(p.cmdline()))
    front.kill()
    assert running.process.wait(60) == 2
    stop(running)
    assert "the front door ended" in (tmp_path / "log").read_text()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []
