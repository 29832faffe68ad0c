"""Define what a served model looks like to the arm that serves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class TensorSpec:
    """Describe one tensor on the wire: its Open Inference Protocol datatype, and its shape without the batch dimension (-1 varies)."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Signature:
    """List what a model takes and gives; every tensor has the batch as first dimension on the wire."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


class Servable(Protocol):
    """Answer batches: pre-processing, network and post-processing, on one device, at one precision.

    `run` is called from one dedicated thread. BYTES tensors are object arrays of bytes; BF16 travels as uint16 bit patterns.
    """

    signature: Signature
    metadata: Mapping[str, str]
    """Facts for the model's metadata: weights digest, engine and version, calibration digest, `weights: random` and such."""

    def warm_up(self, batch_sizes: Sequence[int]) -> None:
        """Run each batch size once or more so that no request pays for a first call."""

    def run(self, inputs: Tensors) -> Tensors:
        """Answer one batch; all inputs share the first dimension n, and so do all outputs. Raise EngineError on failure."""

    def close(self) -> None:
        """Give the device's memory back."""


def batch_buckets(max_batch_size: int) -> tuple[int, ...]:
    """Return the batch sizes to warm up: powers of two up to and including the maximum."""
    sizes = [1]
    while sizes[-1] * 2 < max_batch_size:
        sizes.append(sizes[-1] * 2)
    return tuple(sizes) if sizes[-1] == max_batch_size else (*sizes, max_batch_size)


def example_batch(signature: Signature, n: int, rng: np.random.Generator, length: int = 16) -> Tensors:
    """Return a valid random batch of n items; a varying dimension gets `length`."""
    return {spec.name: _example(spec, n, rng, length) for spec in signature.inputs}


def _example(spec: TensorSpec, n: int, rng: np.random.Generator, length: int) -> NDArray[Any]:
    shape = (n, *(length if d < 0 else d for d in spec.shape))
    if spec.datatype == "BYTES":
        return np.full(shape, b"example", dtype=object)
    if spec.datatype == "BOOL":
        return np.ones(shape, dtype=bool)
    if spec.datatype.startswith(("INT", "UINT")):
        return rng.integers(0, 2, size=shape).astype(spec.datatype.lower())
    return rng.standard_normal(shape).astype({"FP16": "float16", "FP32": "float32", "FP64": "float64"}[spec.datatype])
