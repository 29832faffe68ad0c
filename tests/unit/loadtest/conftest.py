"""Construct run folders whose figures are known in advance."""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from bakeoff.experiment import Experiment, parse
from bakeoff.metrics import Outcome
from loadtest import records
from loadtest.accuracy_record import AccuracyRecord, ArmAccuracy
from loadtest.folder import RunRecord, write_environment, write_plan, write_runs
from loadtest.plan import Depth, Plan, RunSpec
from loadtest.planning import make_plan
from loadtest.schedule import poisson

START_NS = 1_790_000_000_000_000_000
SECOND_NS = 1_000_000_000
BASE_S = 0.040
GPUS = {"a": "GPU-aaaaaaaa-0000", "b": "GPU-bbbbbbbb-0000"}

Edit = Callable[[list[records.Request]], Iterable[records.Request]]


@dataclass(frozen=True)
class Made:
    """Say how a constructed comparison behaves; B's latencies are exactly `ratio` times A's when there is no noise."""

    ratio: float = 0.8
    noise: float = 0.0
    """Standard deviation of the logarithm of each run's speed."""
    drift: float = 0.0
    """Change of the logarithm of the speed from the first to the last run."""
    seed: int = 0
    depth: Depth = Depth.SMOKE
    blocks: int = 6
    rate_per_s: float = 30
    run_s: float = 4
    demonstration: bool = False
    simulated: bool = False
    gpu: bool = False
    priced: bool = True
    gate: dict[str, Any] | None = None
    accuracy: dict[str, float] | None = None
    """Ratio to the reference that each arm's accuracy record states."""
    edit: Edit | None = None
    """Change of the requests before they are written."""
    telemetry: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    """Change of the telemetry before it is written."""
    plan: dict[str, Any] = field(default_factory=dict)
    """Fields of the plan to replace."""


def experiment_of(made: Made) -> Experiment:
    price = {"price": {"kind": "rented", "per_hour": 0.9, "region": "nowhere", "dated": "2026-01-02", "source": "example"}}
    cards = {"a": "T4", "b": "L4"} if made.gpu else {"a": "cpu", "b": "cpu"}
    engine = {"engine": {"kind": "simulated"}} if made.simulated else {}
    workload = {"rate_per_s": made.rate_per_s, "run_s": made.run_s, "blocks": made.blocks, "warmup_s": 1, "seed": 7}
    model = {"family": "echo", "workload": workload, **({"accuracy": made.gate} if made.gate else {})}
    return parse(
        {
            "name": "made-up",
            "demonstration": made.demonstration,
            "pools": {f"pool-{x}": {"accelerator": cards[x], **(price if made.priced else {})} for x in cards},
            "models": {"net": model},
            "arms": [
                {"model": "net", "name": "net-a", "precision": "fp32", "pool": "pool-a", **engine},
                {"model": "net", "name": "net-b", "precision": "int8", "pool": "pool-b", **engine},
            ],
            "slos": [{"model": "net", "latency_s": 0.2}],
        },
        "conftest",
    )


def requests_of(made: Made, plan: Plan) -> list[records.Request]:
    rng = np.random.default_rng(made.seed)
    found = []
    for spec in plan.runs:
        speed = np.exp(made.noise * rng.standard_normal() + made.drift * spec.run / max(1, len(plan.runs) - 1))
        found += _run(made, plan, spec, float(speed))
    return found


def _run(made: Made, plan: Plan, spec: RunSpec, speed: float) -> list[records.Request]:
    """Return one run whose latencies are the same 0.5 to 1.5 multiples of the base in shuffled order."""
    due = start_ns(plan, spec.run) + poisson(spec.rate_per_s, spec.run_s, spec.seed)
    shape = 0.5 + np.random.default_rng(spec.seed).permutation(len(due)) / max(1, len(due) - 1)
    factor = BASE_S * speed * (made.ratio if spec.arm == plan.b else 1)
    gpu = GPUS["b" if spec.arm == plan.b else "a"] if made.gpu else None
    return [_request(spec, seq, int(t), int(factor * x * 1e9), gpu) for seq, (t, x) in enumerate(zip(due, shape, strict=True))]


def _request(spec: RunSpec, seq: int, due: int, latency_ns: int, gpu: str | None) -> records.Request:
    return records.Request(
        run=spec.run,
        arm=spec.arm,
        block=spec.block,
        seq=seq,
        due_ns=due,
        sent_ns=due + 50_000,
        first_ns=due + latency_ns,
        done_ns=due + latency_ns,
        outcome=Outcome.OK,
        status=200,
        items=1,
        batch_size=1 + seq % 3,
        queue_ns=latency_ns // 4,
        execution_ns=latency_ns // 2,
        served_by=spec.arm,
        gpu_uuid=gpu,
        error=None,
    )


def start_ns(plan: Plan, run: int) -> int:
    return START_NS + sum(int((spec.run_s + 2) * SECOND_NS) for spec in plan.runs[:run])


def telemetry_of(made: Made, plan: Plan) -> pd.DataFrame:
    """Return samples once a second: a counter of answered requests, and for GPUs 100 W, 60 degrees and 1.5 GHz."""
    end = start_ns(plan, len(plan.runs) - 1) + int((plan.runs[-1].run_s + 3) * SECOND_NS)
    times = np.arange(START_NS - 2 * SECOND_NS, end, SECOND_NS)
    rows = [(t, "bakeoff_inference_items_total", {"arm": "net-a"}, float(k)) for k, t in enumerate(times)]
    for uuid in GPUS.values() if made.gpu else ():
        gpu = {"gpu_uuid": uuid, "gpu_index": "0", "pool": "pool-" + ("a" if uuid == GPUS["a"] else "b")}
        for k, t in enumerate(times):
            rows += [
                (t, "bakeoff_gpu_up", gpu, 1.0),
                (t, "bakeoff_gpu_info", {**gpu, "name": "Some card"}, 1.0),
                (t, "bakeoff_gpu_power_draw_watts", {**gpu, "window": "instant"}, 100.0),
                (t, "bakeoff_gpu_energy_joules_total", {**gpu, "source": "counter"}, 5000 + 100.0 * k),
                (t, "bakeoff_gpu_temperature_celsius", {**gpu, "sensor": "gpu"}, 60.0),
                (t, "bakeoff_gpu_clock_hertz", {**gpu, "domain": "sm"}, 1.5e9),
                (t, "bakeoff_gpu_throttle_active", {**gpu, "reason": "sw_power_cap"}, 1.0),
                (t, "bakeoff_gpu_throttle_active", {**gpu, "reason": "hw_slowdown"}, 0.0),
            ]
    frame = pd.DataFrame(rows, columns=["t_unix_ns", "metric", "labels", "value"])
    return frame.assign(labels=[json.dumps(labels, sort_keys=True) for labels in frame["labels"]])


def accuracy_of(made: Made) -> AccuracyRecord | None:
    if made.accuracy is None or made.gate is None:
        return None
    return AccuracyRecord(arms={arm: _arm_accuracy(made.gate, ratio) for arm, ratio in made.accuracy.items()})


def _arm_accuracy(gate: dict[str, Any], ratio: float) -> ArmAccuracy:
    return ArmAccuracy(
        dataset=gate["dataset"],
        n=200,
        top1=0.865 * ratio,
        reference_arm="net-a",
        reference_top1=0.865,
        ratio=ratio,
        ratio_lower95=ratio - 0.005,
        agreement=0.98,
        cosine=0.999,
        passed=ratio >= gate["ratio"],
        bound=gate["bound"],
        required=gate["ratio"],
        note="200 views of 20 pictures are too few for a bound that could tell a percent from chance.",
    )


def write_folder(path: Path, made: Made) -> Path:
    path.mkdir()
    plan = make_plan(experiment_of(made), "net", "net-a", "net-b", made.depth)
    plan = Plan.model_validate({**plan.model_dump(), **made.plan})
    requests = requests_of(made, plan)
    records.write(path / records.REQUESTS_FILE, made.edit(requests) if made.edit else requests)
    write_plan(path, plan)
    write_runs(path, [_record(plan, spec) for spec in plan.runs])
    telemetry = telemetry_of(made, plan)
    (made.telemetry(telemetry) if made.telemetry else telemetry).to_parquet(path / "telemetry.parquet", index=False)
    write_environment(path, {"python": "3.11.0", "cpu": "made-up CPU", "git_commit": "0" * 40, "date": "2026-01-02"})
    accuracy = accuracy_of(made)
    if accuracy is not None:
        accuracy.write(path)
    return path


def _record(plan: Plan, spec: RunSpec) -> RunRecord:
    return RunRecord(
        run=spec.run,
        arm=spec.arm,
        block=spec.block,
        position=spec.position,
        seed=spec.seed,
        kind=spec.kind,
        started_unix_ns=start_ns(plan, spec.run),
        run_s=spec.run_s,
        send_lag_p99_s=0.00005,
        achieved_rate_per_s=spec.rate_per_s,
    )


@pytest.fixture
def experiment() -> Callable[..., Experiment]:
    """Return a function that makes the experiment of a constructed comparison."""
    return lambda **how: experiment_of(Made(**how))


@pytest.fixture
def run_folder(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a constructed run folder and returns its path."""
    made = iter(range(1000))
    return lambda **how: write_folder(tmp_path / f"run-{next(made)}", Made(**how))


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Return a function that compares text with a golden file; with BAKEOFF_UPDATE_GOLDENS=1 it rewrites the file, then fails."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parents[2] / "golden" / name
        if os.environ.get("BAKEOFF_UPDATE_GOLDENS") == "1":
            path.write_text(text, encoding="utf-8")
            pytest.fail(f"rewrote {path}: read the change, then run again without BAKEOFF_UPDATE_GOLDENS")
        assert text == path.read_text(encoding="utf-8")

    return compare


@pytest.fixture
def counted() -> Callable[[Callable[[records.Request], records.Request]], Edit]:
    """Return a function that turns a change of one request into an edit of all requests of A/B blocks."""

    def edit_of(change: Callable[[records.Request], records.Request]) -> Edit:
        return lambda requests: [change(r) if r.block >= 0 else r for r in requests]

    return edit_of
