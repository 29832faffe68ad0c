"""Record a metrics page over time: one row a sample and scrape, and no row where a scrape failed."""

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bakeoff.errors import DeviceError, RecordError
from bakeoff.metrics import PREFIX

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger(__name__)

TELEMETRY_FILE = "telemetry.parquet"
TIMEOUT_S = 2.0


class Sample(NamedTuple):
    """Hold one line of a metrics page."""

    metric: str
    labels: Mapping[str, str]
    value: float


class Row(NamedTuple):
    """Hold one sample at the Unix time its scrape began; `labels` is JSON with sorted keys."""

    t_unix_ns: int
    metric: str
    labels: str
    value: float


def parse(page: str) -> list[Sample]:
    """Return the samples of a page in the Prometheus text format; raise DeviceError when it is none."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = list(text_string_to_metric_families(page))
    except (ValueError, IndexError, KeyError) as e:
        raise DeviceError(f"this is no page in the Prometheus text format: {e}. Point at an exporter's /metrics.") from e
    return [Sample(s.name, s.labels, s.value) for family in families for s in family.samples]


def fetch(url: str, timeout_s: float = TIMEOUT_S) -> list[Sample]:
    """Return the samples that a metrics URL serves now; raise DeviceError when it does not answer within the time."""
    if not url.startswith(("http://", "https://")):
        raise DeviceError(f"cannot scrape {url!r}: give a URL such as http://127.0.0.1:9400/metrics")
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310 -- the scheme is checked above
            return parse(answer.read().decode())
    except (OSError, HTTPException, UnicodeDecodeError) as e:
        raise DeviceError(f"cannot scrape {url}: {e}") from e


def is_recorded(metric: str) -> bool:
    """Say whether a sample goes into a run's telemetry: all of our series but histogram buckets, which are most of a page."""
    return metric.startswith(PREFIX) and not metric.endswith("_bucket")


class TelemetryRecorder:
    """Poll a metrics URL in a thread, from construction until `stop`; `failed_scrapes` counts the gaps."""

    def __init__(self, url: str, interval_s: float = 1.0, *, keep: Callable[[str], bool] = is_recorded) -> None:
        self.failed_scrapes = 0
        self._url = url
        self._interval_s = interval_s
        self._keep = keep
        self._rows: list[Row] = []
        self._texts: dict[tuple[tuple[str, str], ...], str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def stop(self) -> list[Row]:
        """Take one last scrape, end the thread and return every row in order of time."""
        self._stop.set()
        self._thread.join()
        return self._rows

    def _run(self) -> None:
        next_s = time.monotonic()
        while not self._stop.wait(max(0.0, next_s - time.monotonic())):
            self._scrape()
            next_s = max(next_s + self._interval_s, time.monotonic())
        self._scrape()

    def _scrape(self) -> None:
        began_ns = time.time_ns()
        try:
            samples = fetch(self._url, max(TIMEOUT_S, self._interval_s))
        except DeviceError as e:
            self.failed_scrapes += 1
            log.warning("gap in telemetry: %s", e)
            return
        self._rows += [Row(began_ns, s.metric, self._text(s.labels), s.value) for s in samples if self._keep(s.metric)]

    def _text(self, labels: Mapping[str, str]) -> str:
        """Return labels as JSON, one string for equal labels: a long run holds each in memory once."""
        key = tuple(sorted(labels.items()))
        if key not in self._texts:
            self._texts[key] = json.dumps(dict(key))
        return self._texts[key]


def write_telemetry(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as Parquet, whole or not at all: t_unix_ns (int64), metric and labels (text), value (float64)."""
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=list(Row._fields))
    frame = frame.astype({"t_unix_ns": "int64", "metric": "string", "labels": "string", "value": "float64"})
    partial = path.with_suffix(".partial")
    frame.to_parquet(partial, index=False)
    partial.replace(path)


def read_telemetry(path: Path) -> "pd.DataFrame":
    """Read rows back as a data frame; raise RecordError when the file is absent, damaged or lacks columns."""
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as e:
        raise RecordError(f"cannot read {path}: {e}") from e
    missing = [column for column in Row._fields if column not in frame.columns]
    if missing:
        raise RecordError(f"{path} lacks the columns {', '.join(missing)}: it was not written by this version")
    return frame
