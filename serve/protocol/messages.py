"""Define an inference request and its answer, free of any wire format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]
Parameter = bool | int | float | str


@dataclass(frozen=True)
class RequestedOutput:
    """Name an output the client wants, and whether it wants it binary (HTTP only)."""

    name: str
    binary: bool


@dataclass(frozen=True)
class InferRequest:
    """Hold a decoded request; every input has the batch as first dimension."""

    inputs: Tensors
    datatypes: Mapping[str, str]
    outputs: tuple[RequestedOutput, ...] = ()
    """Outputs wanted; empty means all."""
    id: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    binary_by_default: bool = False
    """Whether outputs that were not asked for one by one are wanted binary (HTTP only)."""

    @property
    def timeout_s(self) -> float | None:
        """Return the client's own deadline from its `timeout` parameter (microseconds), in seconds; None without one."""
        timeout = self.parameters.get("timeout", 0)
        return float(timeout) / 1e6 if isinstance(timeout, int | float) and timeout > 0 else None


@dataclass(frozen=True)
class InferAnswer:
    """Hold an answer before encoding."""

    model: str
    outputs: Tensors
    datatypes: Mapping[str, str]
    parameters: Mapping[str, Parameter]
    id: str = ""


def items_of(tensors: Mapping[str, NDArray[Any]]) -> int:
    """Return how many items a request carries: the first dimension of its first tensor."""
    first = next(iter(tensors.values()))
    return int(first.shape[0])
