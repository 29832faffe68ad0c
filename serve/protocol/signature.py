"""Hold a request's tensors against the model's signature."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from bakeoff.errors import RequestError
from models.servable import Signature, TensorSpec, require_within
from serve.protocol.messages import InferRequest


def check(request: InferRequest, signature: Signature, max_items: int) -> int:
    """Return the request's item count, or raise RequestError naming the first tensor that does not fit."""
    specs = {spec.name: spec for spec in signature.inputs}
    _check_names(request.inputs, specs)
    for name, spec in specs.items():
        _check_tensor(request.inputs[name], request.datatypes[name], spec)
    require_within(signature, dict(request.inputs))
    _check_outputs(request, signature)
    return _items(request.inputs, max_items)


def shape_key(inputs: Mapping[str, NDArray[Any]]) -> tuple[tuple[int, ...], ...]:
    """Return what requests must share to run in one batch: every tensor's shape without the batch dimension."""
    return tuple(array.shape[1:] for _, array in sorted(inputs.items()))


def _check_names(inputs: Mapping[str, NDArray[Any]], specs: Mapping[str, TensorSpec]) -> None:
    unknown = [name for name in inputs if name not in specs]
    missing = [name for name in specs if name not in inputs]
    if unknown or missing:
        raise RequestError(f"expected the inputs {', '.join(specs)}; found {', '.join(inputs) or 'none'}")


def _check_tensor(array: NDArray[Any], datatype: str, spec: TensorSpec) -> None:
    if datatype != spec.datatype:
        raise RequestError(f"input {spec.name!r}: expected datatype {spec.datatype}, found {datatype}")
    expected = [-1, *spec.shape]
    if array.ndim != len(expected):
        raise RequestError(f"input {spec.name!r}: expected shape {expected} (-1 varies), found {list(array.shape)}")
    if any(e not in (-1, found) for e, found in zip(expected, array.shape, strict=True)):
        raise RequestError(f"input {spec.name!r}: expected shape {expected} (-1 varies), found {list(array.shape)}")


def _check_outputs(request: InferRequest, signature: Signature) -> None:
    known = [spec.name for spec in signature.outputs]
    for output in request.outputs:
        if output.name not in known:
            raise RequestError(f"unknown output {output.name!r}; this model gives {', '.join(known)}")


def _items(inputs: Mapping[str, NDArray[Any]], max_items: int) -> int:
    counts = {array.shape[0] for array in inputs.values()}
    if len(counts) != 1:
        raise RequestError(f"inputs disagree on the batch dimension: {sorted(counts)}")
    items = int(counts.pop())
    if items < 1:
        raise RequestError("the batch dimension is 0: send at least one item")
    if items > max_items:
        raise RequestError(f"{items} items in one request; this model takes at most {max_items} (max_batch_size)")
    return items
