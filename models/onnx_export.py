"""Export a network to ONNX with a free batch dimension.

Imported only where torch runs.
"""

import contextlib
import io
import warnings
from pathlib import Path

import numpy as np
import torch

from models.faults import translated
from models.network import Network
from models.servable import Signature, example_batch

EXAMPLE_BATCH = 2
"""Items of the example; an example of one item would fix the batch dimension to 1."""


def export(network: Network, target: Path) -> None:
    """Write the network in FP32 as ONNX; raise EngineError when it cannot be expressed."""
    names = [spec.name for spec in network.signature.inputs]
    batch = example_batch(network.signature, EXAMPLE_BATCH, np.random.default_rng(0))
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), translated("exporting to ONNX"):
        # The exporter warns about its own internals; nothing in them is the operator's to change.
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            network.module,
            kwargs={name: torch.from_numpy(batch[name]) for name in names},
            dynamo=True,
            dynamic_shapes=_dynamic_shapes(network.signature),
            input_names=names,
            output_names=[spec.name for spec in network.signature.outputs],
            verbose=False,
        )
        assert program is not None
        program.save(str(target))


def _dynamic_shapes(signature: Signature) -> dict[str, dict[int, torch.export.Dim]]:
    n = torch.export.Dim("n")
    free = {spec.name: [axis for axis, size in enumerate(spec.shape, 1) if size < 0] for spec in signature.inputs}
    longest = min((spec.longest for spec in signature.inputs if spec.longest is not None), default=None)
    length = torch.export.Dim("length", max=longest)
    return {name: {0: n, **dict.fromkeys(axes, length)} for name, axes in free.items()}
