import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bakeoff.errors import EngineError, OutOfMemory, RequestError
from bakeoff.precision import Precision
from models.network import Network
from models.servable import Signature, TensorSpec
from models.torch_engine import TorchServable, set_arithmetic

SIGNATURE = Signature((TensorSpec("x", "FP32", (3,)),), (TensorSpec("y", "FP32", (2,)),))


class Doubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 2, bias=False)
        nn.init.ones_(self.body.weight)

    def forward(self, x: Tensor) -> Tensor:
        assert torch.is_inference_mode_enabled()
        answer: Tensor = self.body(x.to(self.body.weight.dtype))
        return answer


class Failing(Doubled):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: Tensor) -> Tensor:
        raise self.error


def servable(module: Doubled, precision: Precision = Precision.FP32) -> TorchServable:
    network = Network(module, module.body, SIGNATURE, {"weights": "here"}, channels_last=False)
    return TorchServable(network, precision, "cpu", threads=1)


def test_a_batch_is_answered_in_inference_mode() -> None:
    answer = servable(Doubled()).run({"x": np.array([[1, 2, 3]], dtype=np.float32)})
    assert answer["y"].tolist() == [[6.0, 6.0]]


def test_read_only_and_strided_inputs_are_taken() -> None:
    whole = np.arange(12, dtype=np.float32).reshape(2, 6)
    whole.flags.writeable = False
    assert servable(Doubled()).run({"x": whole[:, ::2]})["y"].tolist() == [[6.0, 6.0], [24.0, 24.0]]


def test_bf16_computes_in_bf16_and_answers_in_fp32() -> None:
    answer = servable(Doubled(), Precision.BF16).run({"x": np.array([[257, 0, 0]], dtype=np.float32)})["y"]
    assert answer.dtype == np.float32
    assert answer[0, 0] == 256.0


@pytest.mark.parametrize(("precision", "mode"), [(Precision.FP32, "ieee"), (Precision.TF32, "tf32"), (Precision.FP16, "ieee")])
def test_only_a_tf32_arm_lets_products_and_convolutions_use_tf32(precision: Precision, mode: str) -> None:
    try:
        set_arithmetic(precision)
        assert torch.backends.cuda.matmul.fp32_precision == mode
        assert torch.backends.cudnn.conv.fp32_precision == mode  # type: ignore[attr-defined]
        assert torch.backends.cudnn.rnn.fp32_precision == mode  # type: ignore[attr-defined]
        assert torch.backends.cudnn.allow_tf32 is torch.backends.cuda.matmul.allow_tf32 is (mode == "tf32")
    finally:
        set_arithmetic(Precision.FP32)


def test_running_out_of_memory_is_told_apart_from_other_failures() -> None:
    batch = {"x": np.zeros((1, 3), dtype=np.float32)}
    with pytest.raises(OutOfMemory):
        servable(Failing(torch.OutOfMemoryError("CUDA out of memory"))).run(batch)
    with pytest.raises(EngineError) as raised:
        servable(Failing(RuntimeError("kernel failed"))).run(batch)
    assert not isinstance(raised.value, OutOfMemory)


def test_a_closed_engine_says_so() -> None:
    engine = servable(Doubled())
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        engine.run({"x": np.zeros((1, 3), dtype=np.float32)})


def test_a_missing_input_is_the_requests_fault() -> None:
    with pytest.raises(RequestError, match="'x' is missing"):
        servable(Doubled()).run({"z": np.zeros((1, 3), dtype=np.float32)})


def test_metadata_keeps_the_networks_facts_and_adds_the_engines() -> None:
    metadata = servable(Doubled(), Precision.BF16).metadata
    assert metadata["weights"] == "here"
    assert (metadata["engine"], metadata["precision"], metadata["device"]) == ("torch", "bf16", "cpu")
    assert metadata["engine_version"] == str(torch.__version__)


def test_warm_up_runs_every_batch_size() -> None:
    seen = []

    class Seeing(Doubled):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return super().forward(x)

    servable(Seeing()).warm_up([1, 2, 4])
    assert seen == [1, 1, 2, 2, 4, 4]
