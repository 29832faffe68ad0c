"""Quantise an ONNX network to INT8 with ranges read from sample inputs, written as Q/DQ nodes.

Activations are unsigned, weights signed with one scale a channel and seven bits: on CPUs without VNNI, AVX2 adds two
u8 x s8 products in sixteen bits and saturates with eight-bit weights (ONNX Runtime documentation, "Quantize ONNX models").
"""

import contextlib
import io
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.calibration import Method, require_samples
from models.faults import translated

CALIBRATION_BATCH = 4
QUANTISED = ("Conv", "Gemm", "MatMul", "Add", "Clip", "Relu", "MaxPool")
_PRODUCTS = ("Conv", "Gemm", "MatMul")


def quantise(
    fp32: Path,
    target: Path,
    samples: NDArray[Any],
    method: Method,
    *,
    keep_ends: bool = True,
    reduce_range: bool = True,
) -> None:
    """Write `target` as the INT8 form of `fp32`, which takes one input; `samples` has the batch as first dimension.

    With `keep_ends` the first and the last product stay in FP32: they are a small part of the work and the part that
    ranges fit worst. Raises SourceError when the samples are too few or too many for the method.
    """
    require_samples(len(samples), method)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder, _quiet(), translated("quantising to INT8"):
        prepared = Path(folder) / "prepared.onnx"
        _preprocess(fp32, prepared)
        _quantise(prepared, target, samples, method, keep_ends, reduce_range)


def _preprocess(fp32: Path, prepared: Path) -> None:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    quant_pre_process(str(fp32), str(prepared), skip_symbolic_shape=True)


def _quantise(prepared: Path, target: Path, samples: NDArray[Any], method: Method, keep_ends: bool, reduce_range: bool) -> None:
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    methods = {
        "minmax": CalibrationMethod.MinMax,
        "entropy": CalibrationMethod.Entropy,
        "percentile": CalibrationMethod.Percentile,
    }
    name, unquantised = _graph_facts(prepared, keep_ends)
    quantize_static(
        str(prepared),
        str(target),
        _Samples(name, samples),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=list(QUANTISED),
        nodes_to_exclude=unquantised,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=reduce_range,
        calibrate_method=methods[method],
    )


def _graph_facts(prepared: Path, keep_ends: bool) -> tuple[str, list[str]]:
    """Return the input's name and the nodes to leave alone: normalisation before the first product, and the two ends."""
    import onnx

    graph = onnx.load(str(prepared)).graph
    products = [i for i, node in enumerate(graph.node) if node.op_type in _PRODUCTS]
    before = [node.name for node in graph.node[: products[0]]]
    ends = [graph.node[i].name for i in (products[0], products[-1])] if keep_ends else []
    return str(graph.input[0].name), before + ends


class _Samples:
    """Feed calibration samples in small batches, as the quantiser's reader protocol asks."""

    def __init__(self, name: str, samples: NDArray[Any]) -> None:
        starts = range(0, len(samples), CALIBRATION_BATCH)
        self._batches: Iterator[dict[str, NDArray[Any]]] = iter(
            [{name: np.ascontiguousarray(samples[i : i + CALIBRATION_BATCH])} for i in starts]
        )

    def get_next(self) -> dict[str, NDArray[Any]] | None:
        """Return the next batch, None at the end."""
        return next(self._batches, None)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the quantiser's prints and its warnings about its own defaults off the operator's terminal."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
