"""Hold the real EfficientNet-Lite0 to its figures on the 200 labelled views, through the engines that serve it."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bakeoff.errors import EngineError, SourceError
from bakeoff.experiment import Arm, ModelSpec
from bakeoff.hosting import OnnxRuntimeEngine, PathSource, TorchEngine
from models import accuracy, registry
from models.artefacts import Artefact
from models.labelled import LabelledSet, calibration_noise, calibration_views
from models.onnx_engine import session
from models.onnx_int8 import quantise

Answer = Callable[..., np.ndarray]


def an_arm(precision: str, engine: OnnxRuntimeEngine | TorchEngine) -> Arm:
    return Arm(model="lite0", precision=precision, pool="cpu", engine=engine)


def share_kept(answers: np.ndarray, fp32_answers: np.ndarray, views: LabelledSet) -> float:
    return accuracy.ratio(accuracy.correct(answers, views.labels), accuracy.correct(fp32_answers, views.labels))


def test_fp32_gets_86_5_percent_of_the_views_right(fp32_answers: np.ndarray, views: LabelledSet) -> None:
    assert accuracy.top1(fp32_answers, views.labels) == pytest.approx(0.865, abs=0.01)


def test_the_torch_engine_agrees_with_the_onnx_engine(
    lite0: ModelSpec, views: LabelledSet, fp32_answers: np.ndarray, cache: Path
) -> None:
    servable = registry.build(lite0, an_arm("fp32", TorchEngine()), "cpu", cache)
    answered = servable.run({"image": views.images[::20]})["probabilities"]
    np.testing.assert_allclose(answered, fp32_answers[::20], atol=1e-4)


@pytest.mark.parametrize("n", [1, 3, 8])
def test_the_exported_batch_dimension_is_free(n: int, lite0: ModelSpec, fp32: Artefact, views: LabelledSet, cache: Path) -> None:
    servable = registry.build(lite0, an_arm("fp32", OnnxRuntimeEngine()), "cpu", cache)
    answered = servable.run({"image": views.images[:n]})["probabilities"]
    assert answered.shape == (n, 1000)
    np.testing.assert_allclose(answered.sum(1), 1, atol=1e-5)


def test_calibrated_int8_keeps_95_percent_of_fp32(
    int8: Artefact, views: LabelledSet, fp32_answers: np.ndarray, answer: Answer
) -> None:
    answers = answer(int8.model, views.images)
    assert share_kept(answers, fp32_answers, views) >= 0.95
    assert accuracy.agreement(answers, fp32_answers) >= 0.9
    assert accuracy.mean_cosine(answers, fp32_answers) >= 0.97


@pytest.mark.parametrize("batch", [1, 8])
def test_int8_takes_less_processor_time_than_fp32(batch: int, fp32: Artefact, int8: Artefact, views: LabelledSet) -> None:
    sessions = [session(artefact.model, threads=1) for artefact in (fp32, int8)]
    images = views.images[:batch]
    taken: list[list[float]] = [[], []]
    for _ in range(12):
        for opened, times in zip(sessions, taken, strict=True):
            began = time.thread_time()
            opened.run(None, {"image": images})
            times.append(time.thread_time() - began)
    assert min(taken[1]) < min(taken[0])


@pytest.mark.parametrize(("calibration", "kept"), [("views", True), ("noise", False)])
def test_the_95_percent_gate_rejects_noise_calibration_and_admits_representative_calibration(
    calibration: str, kept: bool, fp32: Artefact, views: LabelledSet, fp32_answers: np.ndarray, tmp_path: Path, answer: Answer
) -> None:
    samples = calibration_views(64) if calibration == "views" else calibration_noise(64)
    quantise(fp32.model, tmp_path / "q.onnx", samples, "minmax", keep_ends=False)
    share = share_kept(answer(tmp_path / "q.onnx", views.images), fp32_answers, views)
    assert (share >= 0.95) is kept


def has_vnni() -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    return not cpuinfo.exists() or "vnni" in cpuinfo.read_text()


@pytest.mark.skipif(has_vnni(), reason="a CPU with VNNI adds u8 x s8 products in 32 bits: nothing saturates")
def test_eight_bit_weights_saturate_without_vnni_and_seven_bit_weights_do_not(
    fp32: Artefact, views: LabelledSet, tmp_path: Path, answer: Answer
) -> None:
    cosine = {}
    for reduce_range in (False, True):
        quantise(fp32.model, tmp_path / "q.onnx", calibration_views(64), "minmax", reduce_range=reduce_range)
        images = views.images[::4]
        cosine[reduce_range] = accuracy.mean_cosine(
            answer(tmp_path / "q.onnx", images), answer(tmp_path / "q.onnx", images, exact=True)
        )
    assert cosine[True] > 0.995
    assert cosine[False] < cosine[True] - 0.003


def test_preparing_again_does_nothing(lite0: ModelSpec, int8: Artefact, cache: Path) -> None:
    said: list[str] = []
    registry.prepare(lite0, an_arm("int8", OnnxRuntimeEngine()), cache, said.append)
    assert said == []


def test_metadata_tells_weights_engine_precision_and_calibration(lite0: ModelSpec, int8: Artefact, cache: Path) -> None:
    metadata = registry.build(lite0, an_arm("int8", OnnxRuntimeEngine()), "cpu", cache).metadata
    expected = {
        "family": "efficientnet-lite0",
        "engine": "onnxruntime",
        "precision": "int8",
        "calibration_method": "minmax",
        "calibration_samples": "64",
    }
    assert expected.items() <= metadata.items()
    assert metadata["weights_digest"].startswith("57934424")
    assert len(metadata["calibration_digest"]) == 64
    assert "127.0" in metadata["preprocessing"]


def test_bad_weights_leave_the_prepared_models_as_they_were(fp32: Artefact, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"\x10")
    before = sorted(cache.rglob("*"))
    bad = ModelSpec(family="efficientnet-lite0", source=PathSource(path=tmp_path / "w.safetensors"))
    with pytest.raises(SourceError, match="truncated"):
        registry.prepare(bad, an_arm("fp32", OnnxRuntimeEngine()), cache, lambda _: None)
    assert sorted(cache.rglob("*")) == before


def test_a_wrong_shape_is_an_engine_error(lite0: ModelSpec, fp32: Artefact, cache: Path) -> None:
    servable = registry.build(lite0, an_arm("fp32", OnnxRuntimeEngine()), "cpu", cache)
    with pytest.raises(EngineError, match="ONNX Runtime failed"):
        servable.run({"image": np.zeros((1, 10, 10, 3), dtype=np.uint8)})


def test_a_closed_engine_says_so(lite0: ModelSpec, fp32: Artefact, cache: Path) -> None:
    servable = registry.build(lite0, an_arm("fp32", OnnxRuntimeEngine()), "cpu", cache)
    servable.close()
    with pytest.raises(EngineError, match="closed"):
        servable.run({"image": np.zeros((1, 224, 224, 3), dtype=np.uint8)})
