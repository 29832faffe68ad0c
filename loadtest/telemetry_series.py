"""Read single series out of a run's telemetry samples."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Times = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """Hold one series: its labels, sample times in Unix nanoseconds, ascending, and values."""

    labels: Mapping[str, str]
    t_ns: Times
    values: Values

    def between(self, start_ns: int, end_ns: int) -> "Series":
        """Return the samples in [start_ns, end_ns]."""
        inside = (self.t_ns >= start_ns) & (self.t_ns <= end_ns)
        return Series(self.labels, self.t_ns[inside], self.values[inside])


def select(telemetry: "pd.DataFrame", metric: str, **labels: str) -> list[Series]:
    """Return every series of a metric whose labels have the given values."""
    rows = telemetry[telemetry["metric"] == metric]
    found = []
    for text, samples in rows.groupby("labels", sort=True):
        own = json.loads(text)
        if all(own.get(key) == value for key, value in labels.items()):
            found.append(Series(own, samples["t_unix_ns"].to_numpy("int64"), samples["value"].to_numpy("float64")))
    return found


def gpu_sample_times(telemetry: "pd.DataFrame", gpu_uuid: str) -> Times:
    """Return when any series of one GPU was sampled."""
    rows = telemetry[telemetry["metric"].str.startswith("gpu_")]
    own = [text for text in rows["labels"].unique() if json.loads(text).get("gpu_uuid") == gpu_uuid]
    return np.unique(rows[rows["labels"].isin(own)]["t_unix_ns"].to_numpy("int64"))


def sample_times(telemetry: "pd.DataFrame") -> Times:
    """Return when anything was sampled."""
    return np.unique(telemetry["t_unix_ns"].to_numpy("int64"))


def gpus(telemetry: "pd.DataFrame") -> list[str]:
    """Return the uuid of every GPU that has a series."""
    rows = telemetry[telemetry["metric"].str.startswith("gpu_")]
    found = {json.loads(text).get("gpu_uuid") for text in rows["labels"].unique()}
    return sorted(uuid for uuid in found if uuid)
