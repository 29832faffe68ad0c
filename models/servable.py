"""Define what a served model looks like to the arm that serves it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bakeoff.errors import RequestError

Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class TensorSpec:
    """Describe one tensor on the wire: its Open Inference Protocol datatype, and its shape without the batch dimension (-1 varies)."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    limits: tuple[int, int] | None = None
    """Least and greatest element that is valid, as a vocabulary bounds its ids; None admits every value."""
    longest: int | None = None
    """Greatest size of a varying dimension; None sets no bound."""


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


def require_within(signature: Signature, inputs: Tensors) -> None:
    """Raise RequestError when an input is absent, too long or out of its limits; an index out of range would lose a CUDA context."""
    for spec in signature.inputs:
        if spec.name not in inputs:
            raise RequestError(f"input {spec.name!r} is missing; found {', '.join(sorted(inputs)) or 'none'}")
        _require_length(spec, inputs[spec.name])
        _require_limits(spec, inputs[spec.name])


def _require_length(spec: TensorSpec, array: NDArray[Any]) -> None:
    sizes = [size for size, bound in zip(array.shape[1:], spec.shape, strict=False) if bound < 0]
    if spec.longest is not None and sizes and max(sizes) > spec.longest:
        raise RequestError(f"input {spec.name!r} is {max(sizes)} long: the model takes at most {spec.longest}. Shorten it.")


def _require_limits(spec: TensorSpec, array: NDArray[Any]) -> None:
    if spec.limits is None or array.size == 0:
        return
    least, greatest = int(array.min()), int(array.max())
    if least < spec.limits[0] or greatest > spec.limits[1]:
        raise RequestError(
            f"input {spec.name!r} holds values from {least} to {greatest}: the model takes {spec.limits[0]} to {spec.limits[1]}."
        )


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
