from pathlib import Path

import numpy as np
import pytest

from bakeoff.errors import ExperimentError, OutOfMemory, RequestError
from bakeoff.experiment import Arm, ModelSpec
from bakeoff.hosting import OnnxRuntimeEngine, RandomSource, TorchEngine
from models import registry
from models.servable import Servable, Tensors

pytestmark = pytest.mark.gpu
DEVICE = "cuda:0"


@pytest.fixture(autouse=True)
def _needs_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA GPU")


def build(family: str, precision: str, device: str = DEVICE) -> Servable:
    arm = Arm(model="m", precision=precision, pool="p", engine=TorchEngine(threads=8))
    return registry.build(ModelSpec(family=family, source=RandomSource()), arm, device, Path("unused"))


def images(n: int) -> Tensors:
    return {"image": np.random.default_rng(0).integers(0, 256, (n, 224, 224, 3), dtype=np.uint8)}


def sentences(n: int, length: int) -> Tensors:
    rng = np.random.default_rng(0)
    ones = np.ones((n, length), dtype=np.int64)
    return {"input_ids": rng.integers(0, 30_000, (n, length)), "token_type_ids": 0 * ones, "attention_mask": ones}


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("tf32", 2e-2), ("fp16", 2e-2), ("bf16", 1e-1)])
def test_bert_logits_stay_close_to_the_cpus_at_every_precision(precision: str, tolerance: float) -> None:
    batch = sentences(4, 64)
    expected = build("bert-base", "fp32", "cpu").run(batch)["logits"]
    servable = build("bert-base", precision)
    servable.warm_up([1, 4])
    answer = servable.run(batch)["logits"]
    servable.close()
    assert answer.dtype == np.float32
    np.testing.assert_allclose(answer, expected, atol=tolerance)


@pytest.mark.parametrize("family", ["efficientnet-lite0", "resnet50"])
def test_fp32_probabilities_are_the_cpus_to_fp32_accuracy_and_tf32s_are_not(family: str) -> None:
    batch = images(4)
    expected = build(family, "fp32", "cpu").run(batch)["probabilities"]
    error = {}
    for precision in ("fp32", "tf32"):
        servable = build(family, precision)
        error[precision] = float(np.abs(servable.run(batch)["probabilities"] - expected).max() / expected.max())
        servable.close()
    assert error["fp32"] < 1e-3
    assert error["tf32"] > error["fp32"]


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("family", ["efficientnet-lite0", "resnet50"])
def test_image_answers_are_finite_fp32_distributions(family: str, precision: str) -> None:
    servable = build(family, precision)
    servable.warm_up([1, 2, 8])
    answer = servable.run(images(8))["probabilities"]
    servable.close()
    assert answer.dtype == np.float32
    np.testing.assert_allclose(answer.sum(1), 1, atol=1e-4)


def test_a_batch_the_device_has_no_room_for_is_out_of_memory_and_the_engine_keeps_serving() -> None:
    import torch

    servable = build("resnet50", "fp32")
    torch.cuda.set_per_process_memory_fraction(0.005)
    try:
        with pytest.raises(OutOfMemory, match="max_batch_size"):
            servable.run(images(256))
        torch.cuda.empty_cache()
        assert servable.run(images(1))["probabilities"].shape == (1, 1000)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        servable.close()


def test_an_id_out_of_the_vocabulary_never_reaches_the_device() -> None:
    servable = build("bert-base", "fp16")
    batch = sentences(1, 8)
    batch["input_ids"][0, 0] = 40_000
    with pytest.raises(RequestError, match="30521"):
        servable.run(batch)
    batch["input_ids"][0, 0] = 0
    assert np.isfinite(servable.run(batch)["logits"]).all()
    servable.close()


def test_closing_gives_the_memory_back() -> None:
    import torch

    before = torch.cuda.memory_allocated()
    servable = build("bert-base", "fp32")
    assert torch.cuda.memory_allocated() > before + 400e6
    servable.close()
    assert torch.cuda.memory_allocated() <= before + 50e6


def test_onnx_runtime_on_a_gpu_is_refused_rather_than_run_on_the_cpu(tmp_path: Path) -> None:
    arm = Arm(model="m", precision="fp32", pool="p", engine=OnnxRuntimeEngine())
    with pytest.raises(ExperimentError, match="does not run on engine 'onnxruntime' on cuda"):
        registry.build(ModelSpec(family="resnet50", source=RandomSource()), arm, DEVICE, tmp_path)
    assert list(tmp_path.iterdir()) == []
