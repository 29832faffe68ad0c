"""Name the precisions and say which hardware can run each."""

from enum import StrEnum

from bakeoff.errors import UnsupportedPrecision


class Precision(StrEnum):
    """Name the arithmetic an arm computes in."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"
    FP8 = "fp8"
    INT4 = "int4"


MINIMUM_CAPABILITY: dict[Precision, tuple[int, int]] = {
    Precision.FP32: (7, 0),
    Precision.FP16: (7, 0),
    Precision.INT8: (7, 5),
    Precision.INT4: (7, 5),
    Precision.TF32: (8, 0),
    Precision.BF16: (8, 0),
    Precision.FP8: (8, 9),
}
"""Lowest CUDA compute capability with hardware for each precision (NVIDIA CUDA C++ Programming Guide)."""

CPU_PRECISIONS = frozenset({Precision.FP32, Precision.BF16, Precision.INT8})


def require_support(precision: Precision, gpu: str, capability: tuple[int, int]) -> None:
    """Raise UnsupportedPrecision unless a GPU of this compute capability has hardware for the precision."""
    needed = MINIMUM_CAPABILITY[precision]
    if capability < needed:
        raise UnsupportedPrecision(
            f"{gpu} (compute capability {_dotted(capability)}) cannot run {precision}: it needs {_dotted(needed)} or "
            f"newer. Choose one of {', '.join(sorted(supported(capability)))}."
        )


def require_cpu_support(precision: Precision) -> None:
    """Raise UnsupportedPrecision unless bakeoff has a CPU engine for the precision."""
    if precision not in CPU_PRECISIONS:
        raise UnsupportedPrecision(f"a CPU pool cannot run {precision}. Choose one of {', '.join(sorted(CPU_PRECISIONS))}.")


def supported(capability: tuple[int, int]) -> frozenset[Precision]:
    """Return every precision that a compute capability has hardware for."""
    return frozenset(p for p, needed in MINIMUM_CAPABILITY.items() if capability >= needed)


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
