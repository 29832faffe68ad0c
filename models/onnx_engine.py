"""Run an ONNX file in ONNX Runtime on a CPU."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bakeoff.errors import EngineError
from models.faults import translated
from models.servable import Signature, Tensors, example_batch, require_within

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

ERRORS_ONLY = 3
WARM_LENGTH = 16


class OnnxServable:
    """Answer batches with an ONNX Runtime session whose threads sleep between batches, as replicas share cores."""

    signature: Signature
    metadata: Mapping[str, str]

    def __init__(self, model: Path, signature: Signature, facts: Mapping[str, str], threads: int) -> None:
        self._session: InferenceSession | None = session(model, threads)
        self.signature = signature
        self.metadata = {**facts, "engine": "onnxruntime", "engine_version": _version(), "device": "cpu"}

    def warm_up(self, batch_sizes: Sequence[int]) -> None:
        """Run each batch size twice: the first call plans and takes memory."""
        rng = np.random.default_rng(0)
        for n in batch_sizes:
            batch = example_batch(self.signature, n, rng, WARM_LENGTH)
            self.run(batch)
            self.run(batch)

    def run(self, inputs: Tensors) -> Tensors:
        """Answer one batch; raise OutOfMemory, EngineError, or RequestError for inputs the network cannot take."""
        require_within(self.signature, inputs)
        if self._session is None:
            raise EngineError("the engine was closed: build the arm again")
        names = [spec.name for spec in self.signature.outputs]
        given = {spec.name: np.ascontiguousarray(inputs[spec.name]) for spec in self.signature.inputs}
        with translated("running a batch in ONNX Runtime"):
            answers = self._session.run(names, given)
        return dict(zip(names, answers, strict=True))

    def close(self) -> None:
        """Drop the session and its memory."""
        self._session = None


def session(model: Path, threads: int, *, exact: bool = False) -> "InferenceSession":
    """Open a session on the CPU; `exact` runs Q/DQ nodes in FP32 as written, fusing none into integer kernels.

    Raises EngineError when the file cannot be loaded.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = ERRORS_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if exact:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with translated(f"loading {model.name} into ONNX Runtime"):
        return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _version() -> str:
    import onnxruntime

    return str(onnxruntime.__version__)
