"""Keep a comparison's run folder: the plan, what each run did, raw requests, telemetry, accuracy and environment."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bakeoff.errors import RecordError
from loadtest import records
from loadtest.accuracy_record import ACCURACY_FILE, AccuracyRecord
from loadtest.plan import Plan, RunSpec

if TYPE_CHECKING:
    import pandas as pd

PLAN_FILE = "plan.yaml"
RUNS_FILE = "runs.json"
TELEMETRY_FILE = "telemetry.parquet"
ENVIRONMENT_FILE = "environment.json"
VERDICT_FILE = "verdict.json"
REPORT_FILE = "report.html"
RAW_FILES = (PLAN_FILE, RUNS_FILE, records.REQUESTS_FILE, TELEMETRY_FILE, ACCURACY_FILE, ENVIRONMENT_FILE)
TELEMETRY_COLUMNS = ("t_unix_ns", "metric", "labels", "value")

Parsed = TypeVar("Parsed")


class RunRecord(BaseModel):
    """Say what one run did, as the load generator saw it; unknown keys are kept out of the analysis."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: int = Field(ge=0)
    arm: str
    block: int
    position: int = Field(ge=0, le=3)
    seed: int
    kind: str
    started_unix_ns: int
    run_s: float = Field(gt=0)
    send_lag_p99_s: float | None = None
    achieved_rate_per_s: float | None = None


@dataclass(frozen=True)
class RunFolder:
    """Hold the raw content of a run folder.

    `requests` has the columns of `loadtest.records`; `telemetry` has t_unix_ns (int), metric (str, without the project's
    prefix), labels (JSON text) and value (float), in time order; `digests` maps each raw file to its SHA-256.
    """

    path: Path
    plan: Plan
    runs: tuple[RunRecord, ...]
    requests: "pd.DataFrame"
    telemetry: "pd.DataFrame"
    accuracy: AccuracyRecord | None
    environment: Mapping[str, object]
    digests: Mapping[str, str]


def read_folder(path: Path) -> RunFolder:
    """Read a run folder; raise RecordError naming the file that is missing, damaged or inconsistent."""
    if not path.is_dir():
        raise RecordError(f"no run folder at {path}: give the folder that `bakeoff compare` wrote")
    folder = RunFolder(
        path=path,
        plan=read_plan(path),
        runs=_parsed(path / RUNS_FILE, TypeAdapter(tuple[RunRecord, ...])),
        requests=records.read(path / records.REQUESTS_FILE),
        telemetry=_read_telemetry(path / TELEMETRY_FILE),
        accuracy=_read_accuracy(path),
        environment=_read_environment(path),
        digests={name: sha256(path / name) for name in RAW_FILES if (path / name).exists()},
    )
    _require_consistent(folder)
    return folder


def write_plan(path: Path, plan: Plan) -> None:
    """Write the plan into a run folder."""
    text = yaml.safe_dump(plan.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    _replace(path / PLAN_FILE, text)


def read_plan(path: Path) -> Plan:
    """Read the plan of a run folder, or raise RecordError."""
    text = _text(path / PLAN_FILE)
    try:
        return Plan.model_validate(yaml.safe_load(text))
    except (yaml.YAMLError, ValidationError) as e:
        raise RecordError(f"{path / PLAN_FILE} is damaged or of another version: {e}") from e


def write_runs(path: Path, runs: Iterable[RunRecord]) -> None:
    """Write what the runs did into a run folder."""
    _replace(path / RUNS_FILE, json.dumps([run.model_dump() for run in runs], indent=1) + "\n")


def write_environment(path: Path, environment: Mapping[str, object]) -> None:
    """Write the environment's description into a run folder."""
    _replace(path / ENVIRONMENT_FILE, json.dumps(environment, indent=1, sort_keys=True) + "\n")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_accuracy(path: Path) -> AccuracyRecord | None:
    if not (path / ACCURACY_FILE).exists():
        return None
    return _parsed(path / ACCURACY_FILE, TypeAdapter(AccuracyRecord))


def _read_environment(path: Path) -> dict[str, object]:
    return _parsed(path / ENVIRONMENT_FILE, TypeAdapter(dict[str, object]))


def _read_telemetry(path: Path) -> "pd.DataFrame":
    import pandas as pd

    from bakeoff.metrics import PREFIX

    if not path.exists():
        raise RecordError(f"{path} is missing: a comparison without telemetry cannot be judged; run it again with the exporter")
    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as e:
        raise RecordError(f"cannot read {path}: {e}") from e
    missing = [c for c in TELEMETRY_COLUMNS if c not in frame.columns]
    if missing:
        raise RecordError(f"{path} lacks the columns {', '.join(missing)}: it was not written by this version")
    frame = frame.assign(metric=frame["metric"].astype("string").str.removeprefix(PREFIX))
    return frame.sort_values("t_unix_ns", kind="stable", ignore_index=True)


def _parsed(path: Path, adapter: TypeAdapter[Parsed]) -> Parsed:
    try:
        return adapter.validate_json(_text(path))
    except ValidationError as e:
        raise RecordError(f"{path} is damaged or of another version: {e}") from e


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise RecordError(f"cannot read {path}: {e}") from e


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _require_consistent(folder: RunFolder) -> None:
    """Raise RecordError when runs or rows are not those the plan has."""
    specs = {spec.run: spec for spec in folder.plan.runs}
    for record in folder.runs:
        _require_planned(record, specs.get(record.run))
    for run, rows in folder.requests.groupby("run", sort=True):
        _require_rows(int(run), rows, specs.get(int(run)))


def _require_planned(record: RunRecord, spec: RunSpec | None) -> None:
    found = (record.arm, record.block, record.position, record.seed, record.kind)
    planned = None if spec is None else (spec.arm, spec.block, spec.position, spec.seed, spec.kind)
    if found != planned:
        raise RecordError(
            f"{RUNS_FILE}: run {record.run} was (arm, block, position, seed, kind) = {found}; the plan has {planned}"
        )


def _require_rows(run: int, rows: "pd.DataFrame", spec: RunSpec | None) -> None:
    if spec is None:
        raise RecordError(f"{records.REQUESTS_FILE} holds run {run}, which the plan does not have")
    strays = rows[(rows["arm"] != spec.arm) | (rows["block"] != spec.block)]
    if len(strays):
        raise RecordError(
            f"{records.REQUESTS_FILE}: {len(strays)} rows of run {run} are not of arm {spec.arm!r}, block {spec.block}, as planned"
        )
    if sorted(rows["seq"]) != list(range(len(rows))):
        raise RecordError(
            f"{records.REQUESTS_FILE}: run {run} does not number its {len(rows)} requests from 0 on: rows are missing or doubled"
        )
