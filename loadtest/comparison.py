"""Run a comparison against a server that is up: accuracy gate, telemetry, A B B A blocks, verdict, report."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bakeoff.errors import RecordError
from bakeoff.experiment import Experiment
from loadtest.accuracy_record import ACCURACY_FILE
from loadtest.environment import environment
from loadtest.folder import TELEMETRY_FILE, RunRecord, write_environment, write_plan, write_runs
from loadtest.generator import Generator, RunResult
from loadtest.job import Payload
from loadtest.plan import WARMUP_BLOCK, Depth, Plan, RunSpec
from loadtest.planning import make_plan
from loadtest.records import REQUESTS_FILE
from loadtest.verdict import Verdict

if TYPE_CHECKING:
    from models.labelled import LabelledSet

PAYLOAD_FILE = "payload.npz"
DISTINCT_PAYLOADS = 64


class Progress(Protocol):
    """Tell whoever watches what is being done."""

    def say(self, line: str) -> None:
        """Report one step."""

    def advance(self, done: int, total: int, line: str) -> None:
        """Report that `done` of `total` runs are over."""


@dataclass(frozen=True)
class Server:
    """Name the addresses of the server under test."""

    http_url: str
    grpc_address: str | None
    metrics_url: str


@dataclass(frozen=True)
class Comparison:
    """Hold what a comparison was asked to do."""

    experiment: Experiment
    a: str
    b: str
    depth: Depth
    out: Path
    facts: dict[str, object] = field(default_factory=dict)
    """Further facts for the environment's record."""

    @property
    def model(self) -> str:
        """Return the model that arm A serves."""
        return self.experiment.arm(self.a).model

    def plan(self) -> Plan:
        """Return the plan, or raise ExperimentError."""
        return make_plan(self.experiment, self.model, self.a, self.b, self.depth)


def prepare_folder(out: Path) -> None:
    """Make the run folder; raise RecordError when it already holds a run, which is never overwritten."""
    if (out / REQUESTS_FILE).exists():
        raise RecordError(f"{out} already holds a run; choose another folder, nothing is overwritten")
    out.mkdir(parents=True, exist_ok=True)


def compare(comparison: Comparison, server: Server, progress: Progress) -> Verdict:
    """Carry the comparison out and return its verdict; the run folder then holds all evidence and the report."""
    from loadtest.analysis import write_verdict
    from loadtest.report import write_report

    out = comparison.out
    plan = comparison.plan()
    prepare_folder(out)
    write_plan(out, plan)
    progress.say(f"plan {plan.digest[:12]}: {len(plan.runs)} runs, primary metric {plan.primary_metric}")
    data = _labelled(comparison)
    _gate(comparison, server, data, progress)
    with _telemetry(server, out), _generator(server, data, out) as generator:
        results = [_run(generator, plan, spec, progress) for spec in plan.runs]
        _keep(out, results)
    write_environment(out, environment(comparison.facts))
    progress.say("computing the verdict from the raw records")
    verdict = write_verdict(out)
    write_report(out)
    return verdict


def _labelled(comparison: Comparison) -> "LabelledSet | None":
    from models.labelled import labelled

    gate = comparison.experiment.models[comparison.model].accuracy
    return None if gate is None else labelled(gate.dataset)


def _gate(comparison: Comparison, server: Server, data: "LabelledSet | None", progress: Progress) -> None:
    from loadtest.accuracy import run_gate, serving_path

    if data is None:
        return
    progress.say(f"accuracy gate: {len(data.labels)} labelled inputs through the serving path of each arm")
    infer = serving_path(server.http_url, comparison.experiment)
    record = run_gate(comparison.experiment, comparison.a, comparison.b, infer, data)
    if record is not None:
        (comparison.out / ACCURACY_FILE).write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")


@contextmanager
def _telemetry(server: Server, out: Path) -> Iterator[None]:
    from monitoring.scrape import TelemetryRecorder, write_telemetry

    recorder = TelemetryRecorder(server.metrics_url)
    try:
        yield
    finally:
        write_telemetry(out / TELEMETRY_FILE, recorder.stop())


def _generator(server: Server, data: "LabelledSet | None", out: Path) -> Generator:
    payload = Payload(distinct=DISTINCT_PAYLOADS)
    if data is not None:
        payload = Payload(inputs=_stored_payload(data, out), distinct=DISTINCT_PAYLOADS)
    return Generator(server.http_url, server.grpc_address, payload=payload)


def _stored_payload(data: "LabelledSet", out: Path) -> Path:
    """Store real inputs for the load, spread over the whole set; they are not part of the evidence and stay small."""
    import numpy as np

    step = max(1, len(data.images) // DISTINCT_PAYLOADS)
    path = out / PAYLOAD_FILE
    np.savez_compressed(path, image=data.images[::step][:DISTINCT_PAYLOADS])
    return path


def _run(generator: Generator, plan: Plan, spec: RunSpec, progress: Progress) -> RunResult:
    what = (
        "warm-up"
        if spec.block == WARMUP_BLOCK
        else f"block {spec.block + 1}"
        if spec.block >= 0
        else f"A/A block {-1 - spec.block}"
    )
    progress.advance(spec.run, len(plan.runs), f"{what}: {spec.arm} at {spec.rate_per_s:g}/s for {spec.run_s:g} s")
    result = generator.run(spec)
    progress.advance(spec.run + 1, len(plan.runs), f"{what}: {spec.arm}: {result.good} of {len(result.frame)} good")
    return result


def _keep(out: Path, results: list[RunResult]) -> None:
    import pandas as pd

    frame = pd.concat([result.frame for result in results], ignore_index=True)
    partial = out / (REQUESTS_FILE + ".partial")
    frame.to_parquet(partial, index=False)
    partial.replace(out / REQUESTS_FILE)
    write_runs(out, [_record(result) for result in results])


def _record(result: RunResult) -> RunRecord:
    spec = result.spec
    return RunRecord(
        run=spec.run,
        arm=spec.arm,
        block=spec.block,
        position=spec.position,
        seed=spec.seed,
        kind=spec.kind,
        started_unix_ns=result.started_unix_ns,
        run_s=spec.run_s,
        send_lag_p99_s=result.send_lag_p99_s,
        achieved_rate_per_s=result.achieved_rate_per_s,
    )
