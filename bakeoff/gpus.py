"""Hold the GPU catalogue: dense peaks, bandwidth, memory and power of each card, from `gpus.csv`.

Peaks are dense (no 2:4 sparsity) and in the unit the column names. Sources: NVIDIA's datasheets and architecture
whitepapers; the `note` column says where a row departs from the datasheet's headline figure, `confidence` how sure it is.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from bakeoff.errors import ExperimentError
from bakeoff.precision import Precision

_PEAK_COLUMNS = {
    Precision.FP32: "fp32_tflops",
    Precision.TF32: "tf32_dense_tflops",
    Precision.FP16: "fp16_dense_tflops",
    Precision.BF16: "bf16_dense_tflops",
    Precision.FP8: "fp8_dense_tflops",
    Precision.INT8: "int8_dense_tops",
    Precision.INT4: "int4_dense_tops",
}


@dataclass(frozen=True)
class Gpu:
    """Describe one card as its datasheet does; an absent figure is None.

    Units: boost_hz hertz; peak_ops operations a second; memory_bytes bytes; memory_bandwidth_bytes_s bytes a second; tdp_w watts.
    """

    name: str
    architecture: str
    capability: tuple[int, int]
    sm_count: int
    cuda_cores: int
    tensor_cores: int
    tensor_core_generation: int
    boost_hz: float | None
    peak_ops: dict[Precision, float]
    memory_bytes: float
    memory_bandwidth_bytes_s: float
    tdp_w: float
    pcie_generation: int
    pcie_lanes: int
    confidence: str
    note: str


@cache
def catalogue() -> dict[str, Gpu]:
    """Return every card of `gpus.csv` by its catalogue name."""
    text = resources.files("bakeoff").joinpath("gpus.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {row["gpu"]: _gpu(row) for row in rows}


def lookup(name: str) -> Gpu:
    """Return one card by catalogue name, or raise ExperimentError listing the names there are."""
    found = catalogue().get(name)
    if found is None:
        raise ExperimentError(f"unknown accelerator {name!r}. Known: cpu, {', '.join(catalogue())}.")
    return found


def _gpu(row: dict[str, str]) -> Gpu:
    major, minor = row["compute_capability"].split(".")
    return Gpu(
        name=row["gpu"],
        architecture=row["architecture"],
        capability=(int(major), int(minor)),
        sm_count=int(row["sm_count"]),
        cuda_cores=int(row["cuda_cores"]),
        tensor_cores=int(row["tensor_cores"]),
        tensor_core_generation=int(row["tensor_core_gen"]),
        boost_hz=float(row["boost_mhz"]) * 1e6 if row["boost_mhz"] else None,
        peak_ops={p: float(row[column]) * 1e12 for p, column in _PEAK_COLUMNS.items() if row[column]},
        memory_bytes=float(row["memory_gb"]) * 1e9,
        memory_bandwidth_bytes_s=float(row["memory_bandwidth_gbs"]) * 1e9,
        tdp_w=float(row["tdp_w"]),
        pcie_generation=int(row["pcie_gen"]),
        pcie_lanes=int(row["pcie_lanes"]),
        confidence=row["confidence"],
        note=row["note"],
    )
