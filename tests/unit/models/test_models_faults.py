import pytest

from bakeoff.errors import EngineError, OutOfMemory, RequestError
from models.faults import error_for, translated


def cuda_out_of_memory() -> Exception:
    import torch

    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nmore lines")


def runtime_exception() -> Exception:
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

    error: Exception = InvalidArgument("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Got invalid dimensions")
    return error


@pytest.mark.parametrize(
    "error",
    [
        cuda_out_of_memory(),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 1 bytes"),
        RuntimeError("std::bad_alloc"),
    ],
)
def test_every_way_to_run_out_of_memory_is_one_error_with_a_remedy(error: Exception) -> None:
    with pytest.raises(OutOfMemory, match="max_batch_size") as raised, translated("running"):
        raise error
    assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [runtime_exception(), RuntimeError("device-side assert"), IndexError("out of range"), TypeError("x")]
)
def test_any_other_framework_failure_is_an_engine_error(error: Exception) -> None:
    with pytest.raises(EngineError, match="running failed") as raised, translated("running"):
        raise error
    assert type(raised.value) is EngineError


@pytest.mark.parametrize("error", [RequestError("mine"), KeyboardInterrupt()])
def test_our_own_errors_and_interrupts_pass_unchanged(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, translated("running"):
        raise error
    assert raised.value is error


def test_a_message_keeps_to_one_line() -> None:
    assert "more lines" not in str(error_for(cuda_out_of_memory(), "running"))


def test_a_wrapped_failure_is_reported_by_where_it_began() -> None:
    wrapped = RuntimeError("see the guide")
    wrapped.__cause__ = ValueError("axis 3 is missing")
    assert "ValueError: axis 3 is missing" in str(error_for(wrapped, "exporting"))
