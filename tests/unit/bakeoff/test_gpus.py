"""The catalogue against what the hardware's own arithmetic says."""

import pytest

from bakeoff.errors import ExperimentError, UnsupportedPrecision
from bakeoff.gpus import catalogue, lookup
from bakeoff.precision import Precision, require_support, supported

FMA_PER_TENSOR_CORE_FP16 = {"Turing": 64, "Ampere": 256, "Ada": 128, "Hopper": 512}
"""Dense FP16 fused multiply-adds a clock of one Tensor Core (NVIDIA architecture whitepapers)."""
FMA_EXCEPTIONS = {"A10": 128}
"""GA10x Tensor Cores do half of GA100's (NVIDIA GA102 whitepaper)."""
PEAK_TOLERANCE = {"Hopper": 0.08}
"""Hopper's datasheet peaks hold at a clock under the boost the same sheet names; others round to three digits."""
EXACT = [name for name, gpu in catalogue().items() if gpu.boost_hz is not None]


def test_the_catalogue_holds_the_cards_we_speak_of():
    assert {"T4", "L4", "A100-SXM4-40GB", "A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM-141GB"} <= set(catalogue())


@pytest.mark.parametrize("name", EXACT)
def test_fp16_peak_is_tensor_cores_times_fma_times_two_times_boost(name):
    gpu = lookup(name)
    fma = FMA_EXCEPTIONS.get(name, FMA_PER_TENSOR_CORE_FP16[gpu.architecture])
    computed = gpu.tensor_cores * fma * 2 * gpu.boost_hz
    assert gpu.peak_ops[Precision.FP16] == pytest.approx(computed, rel=PEAK_TOLERANCE.get(gpu.architecture, 0.02))


@pytest.mark.parametrize("name", EXACT)
def test_fp32_peak_is_cuda_cores_times_two_times_boost(name):
    gpu = lookup(name)
    assert gpu.peak_ops[Precision.FP32] == pytest.approx(gpu.cuda_cores * 2 * gpu.boost_hz, rel=0.02)


@pytest.mark.parametrize("name", list(catalogue()))
def test_a_card_has_a_peak_exactly_where_its_capability_has_hardware(name):
    gpu = lookup(name)
    without_peak = supported(gpu.capability) - set(gpu.peak_ops)
    assert without_peak <= ({Precision.INT4} if gpu.architecture == "Hopper" else set())
    assert set(gpu.peak_ops) <= supported(gpu.capability)


@pytest.mark.parametrize("name", list(catalogue()))
def test_int8_is_twice_fp16_and_figures_are_dense(name):
    gpu = lookup(name)
    assert gpu.peak_ops[Precision.INT8] == pytest.approx(2 * gpu.peak_ops[Precision.FP16], rel=0.02)


def test_facts_that_buyers_get_wrong():
    assert lookup("L4").memory_bandwidth_bytes_s < lookup("T4").memory_bandwidth_bytes_s
    assert lookup("T4").tensor_core_generation == 2
    assert Precision.FP8 not in lookup("A100-SXM4-40GB").peak_ops


@pytest.mark.parametrize(("gpu", "precision"), [("T4", "bf16"), ("T4", "fp8"), ("T4", "tf32"), ("A100-SXM4-80GB", "fp8")])
def test_a_precision_without_hardware_is_refused_with_what_there_is(gpu, precision):
    with pytest.raises(UnsupportedPrecision, match=f"{gpu}.*cannot run {precision}.*Choose one of"):
        require_support(Precision(precision), gpu, lookup(gpu).capability)


def test_an_unknown_card_is_told_with_the_cards_there_are():
    with pytest.raises(ExperimentError, match="unknown accelerator 'V100'.*T4"):
        lookup("V100")
