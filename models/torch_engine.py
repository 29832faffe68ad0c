"""Run a network eagerly in PyTorch, on a CPU or a CUDA device, in FP32, TF32, FP16 or BF16.

Imported only where torch runs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bakeoff.errors import EngineError
from bakeoff.precision import Precision, require_support
from models.faults import translated
from models.network import Network
from models.servable import Signature, Tensors, example_batch, require_within

WARM_LENGTHS = (16, 128, 512)
_DTYPES = {
    Precision.FP32: torch.float32,
    Precision.TF32: torch.float32,
    Precision.FP16: torch.float16,
    Precision.BF16: torch.bfloat16,
}


class TorchServable:
    """Answer batches with a torch module on one device; one precision a process, as torch keeps FP32's mode process-wide."""

    signature: Signature
    metadata: Mapping[str, str]

    def __init__(self, network: Network, precision: Precision, device: str, threads: int) -> None:
        self._device = torch.device(device)
        _require_capability(precision, self._device)
        set_arithmetic(precision)
        if self._device.type == "cpu":
            torch.set_num_threads(threads)
        self._module: nn.Module | None = _placed(network, precision, self._device)
        self.signature = network.signature
        self.metadata = {**network.facts, **_facts(precision, self._device)}

    def warm_up(self, batch_sizes: Sequence[int]) -> None:
        """Run each batch size twice: the first call chooses algorithms and takes memory."""
        rng = np.random.default_rng(0)
        for n in batch_sizes:
            for length in self._warm_lengths():
                batch = example_batch(self.signature, n, rng, length)
                self.run(batch)
                self.run(batch)

    def run(self, inputs: Tensors) -> Tensors:
        """Answer one batch in FP32; raise OutOfMemory, EngineError, or RequestError for inputs the network cannot take."""
        require_within(self.signature, inputs)
        if self._module is None:
            raise EngineError("the engine was closed: build the arm again")
        with translated("running a batch in PyTorch"), torch.inference_mode():
            given = {spec.name: self._sent(inputs[spec.name]) for spec in self.signature.inputs}
            answer = self._module(**given).to("cpu", torch.float32)
        return {self.signature.outputs[0].name: answer.numpy()}

    def close(self) -> None:
        """Drop the weights and give cached device memory back."""
        self._module = None
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _sent(self, array: NDArray[Any]) -> torch.Tensor:
        tensor = torch.from_numpy(np.require(array, requirements=("C", "W")))
        return tensor if self._device.type == "cpu" else tensor.pin_memory().to(self._device, non_blocking=True)

    def _warm_lengths(self) -> tuple[int, ...]:
        longest = [spec.longest for spec in self.signature.inputs if spec.longest is not None]
        if not longest or self._device.type == "cpu":
            return tuple(min(WARM_LENGTHS[0], bound) for bound in longest[:1]) or WARM_LENGTHS[:1]
        return tuple(length for length in WARM_LENGTHS if length <= min(longest))


def set_arithmetic(precision: Precision) -> None:
    """Let FP32 products run in TF32 only for a TF32 arm; cuDNN's convolutions would otherwise use it for FP32 as well.

    The older switches are set alike: torch refuses to trace a process in which old and new, or two operators, differ.
    """
    tf32 = precision is Precision.TF32
    cudnn: Any = torch.backends.cudnn
    cudnn.allow_tf32 = tf32
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    places: tuple[Any, ...] = (torch.backends, torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn)
    for place in places:
        place.fp32_precision = "tf32" if tf32 else "ieee"


def _require_capability(precision: Precision, device: torch.device) -> None:
    if device.type == "cuda":
        require_support(precision, torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device))


def _placed(network: Network, precision: Precision, device: torch.device) -> nn.Module:
    with translated(f"loading the network onto {device}"):
        network.body.to(_DTYPES[precision])
        module = network.module.to(device).eval()
        if network.channels_last:
            network.body.to(memory_format=torch.channels_last)
    return module


def _facts(precision: Precision, device: torch.device) -> dict[str, str]:
    name = "cpu" if device.type == "cpu" else torch.cuda.get_device_name(device)
    return {"engine": "torch", "engine_version": str(torch.__version__), "precision": str(precision), "device": name}
