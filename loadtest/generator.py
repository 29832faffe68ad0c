"""Generate load in processes of their own: the parent's side of `python -m loadtest.generator`."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import ValidationError

from bakeoff.errors import LoadError
from bakeoff.metrics import Outcome
from loadtest.child import Child
from loadtest.clock import Clock
from loadtest.job import Job, Payload, Reply, Start
from loadtest.plan import RunSpec
from loadtest.records import read

if TYPE_CHECKING:
    import pandas as pd

START_DELAY_NS = 250_000_000
PREPARATION_S = 300.0
ENDING_S = 120.0


@dataclass(frozen=True, eq=False)
class RunResult:
    """Hold what a run left: its rows, and how well the generator kept to the schedule."""

    spec: RunSpec
    frame: "pd.DataFrame" = field(repr=False)
    """One row for each scheduled request, ordered by due time."""
    rows: Path
    """The same as Parquet; a generator without a folder of its own removes it when it ends."""
    started_unix_ns: int
    """When the run started, on the comparison's clock."""
    cpu_share: float
    """Share of one core that the busiest generator process used."""

    @property
    def finished_unix_ns(self) -> int:
        """Return when the last request ended; the start when there was none."""
        last = self.frame["done_ns"].max()
        return self.started_unix_ns if last is None or last != last else int(last)  # noqa: PLR0124 (a NaN is not itself)

    @property
    def outcomes(self) -> dict[Outcome, int]:
        """Count requests by how they ended."""
        from loadtest.timings import outcomes

        return outcomes(self.frame)

    @property
    def good(self) -> int:
        """Count the requests that got a good answer."""
        return self.outcomes.get(Outcome.OK, 0)

    def keep(self, path: Path) -> None:
        """Copy the rows to where they outlast the generator, whole or not at all."""
        partial = path.with_suffix(".partial")
        shutil.copyfile(self.rows, partial)
        partial.replace(path)

    @property
    def send_lag_p50_s(self) -> float | None:
        """Return the median delay from due to sent; None in a closed loop, where requests are due when they are sent."""
        return self._send_lag_s(0.5)

    @property
    def send_lag_p99_s(self) -> float | None:
        """Return the 99th percentile of the delay from due to sent; None in a closed loop."""
        return self._send_lag_s(0.99)

    @property
    def achieved_rate_per_s(self) -> float:
        """Return requests sent a second."""
        from loadtest.timings import achieved_rate_per_s

        sent = self.frame["sent_ns"].dropna()
        return achieved_rate_per_s(sent.tolist(), self.started_unix_ns, self.spec.run_s)

    def _send_lag_s(self, q: float) -> float | None:
        from loadtest.timings import quantile, send_lags_s

        if self.spec.kind == "closed":
            return None
        sent = self.frame.dropna(subset=["sent_ns"])
        return quantile(send_lags_s(sent["due_ns"].tolist(), sent["sent_ns"].tolist()), q)


class Generator:
    """Own the generator processes of a comparison; runs go one after another, each shared by all processes."""

    def __init__(
        self,
        base_url: str,
        grpc_url: str | None = None,
        *,
        workers: int = 1,
        payload: Payload | None = None,
        headers: Mapping[str, str] | None = None,
        folder: Path | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.base_url = base_url
        self.grpc_url = grpc_url
        self.workers = workers
        self.payload = payload or Payload()
        self.headers = dict(headers or {})
        self.clock = clock or Clock.started_now()
        self._folder = folder
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._children: list[Child] = []
        self._runs = 0

    def __enter__(self) -> Self:
        if self._folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="bakeoff-load-")
        arguments = ["--base-url", self.base_url, *([] if self.grpc_url is None else ["--grpc-url", self.grpc_url])]
        for _ in range(self.workers):
            self._children.append(Child("loadtest.generator", arguments))
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            child.close()
        self._children.clear()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    @property
    def pids(self) -> list[int]:
        """Return the ids of the generator processes."""
        return [child.pid for child in self._children]

    def against(self, base_url: str, grpc_url: str | None) -> "Generator":
        """Return a generator that is set up alike, for another server."""
        return Generator(base_url, grpc_url, workers=self.workers, payload=self.payload, headers=self.headers, clock=self.clock)

    def run(self, spec: RunSpec) -> RunResult:
        """Generate one run; raise LoadError when a process refuses or dies."""
        if not self._children:
            raise LoadError("the generator is not running: use it in a with statement")
        self._runs += 1
        parts = [self._rows(f"part-{self._runs:04d}-{k}") for k in range(self.workers)]
        self._prepare(spec, parts)
        start_ns = self.clock.now_ns() + START_DELAY_NS
        replies = self._start(spec, start_ns)
        rows = self._rows(f"run-{self._runs:04d}")
        return RunResult(spec, _join(parts, rows), rows, start_ns, max(r.cpu_share for r in replies))

    def _rows(self, name: str) -> Path:
        folder = self._folder or Path(self._temporary.name if self._temporary else ".")
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.parquet"

    def _prepare(self, spec: RunSpec, parts: list[Path]) -> None:
        for worker, (child, rows) in enumerate(zip(self._children, parts, strict=True)):
            child.write(self._job(spec, worker, rows).model_dump_json())
        for reply in [_reply(child, PREPARATION_S) for child in self._children]:
            if reply.error is not None:
                raise LoadError(reply.error)

    def _job(self, spec: RunSpec, worker: int, rows: Path) -> Job:
        return Job(
            spec=spec,
            rows=rows,
            payload=self.payload,
            headers=self.headers,
            clock_offset_ns=self.clock.offset_ns,
            worker=worker,
            workers=self.workers,
        )

    def _start(self, spec: RunSpec, start_ns: int) -> list[Reply]:
        for child in self._children:
            child.write(Start(start_ns=start_ns).model_dump_json())
        replies = [_reply(child, spec.run_s + spec.timeout_s + ENDING_S) for child in self._children]
        for reply in replies:
            if reply.error is not None:
                raise LoadError(reply.error)
        return replies


def _reply(child: Child, timeout_s: float) -> Reply:
    line = child.read(timeout_s)
    try:
        return Reply.model_validate(json.loads(line))
    except (ValueError, ValidationError) as e:
        raise LoadError(f"{child.name} (process {child.pid}) answered {line[:200]!r}: {e}") from e


def _join(parts: list[Path], rows: Path) -> "pd.DataFrame":
    """Put the parts of a run together, ordered by due time, in one file."""
    import pandas as pd

    frame = pd.concat([read(part) for part in parts]).sort_values(["due_ns", "seq"], ignore_index=True)
    frame.to_parquet(rows, index=False)
    for part in parts:
        part.unlink()
    return frame


if __name__ == "__main__":
    from loadtest.worker import main

    main()
