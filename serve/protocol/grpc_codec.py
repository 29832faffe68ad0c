"""Read and write inference over gRPC: raw tensors, or typed contents."""

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bakeoff.errors import RequestError
from serve.protocol.messages import InferAnswer, InferRequest, Parameter, RequestedOutput, Tensors
from serve.protocol.stubs import inference_pb2 as pb
from serve.protocol.tensors import checked_shape, from_bytes, numpy_type, to_bytes

_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def decode(message: "pb.ModelInferRequest") -> InferRequest:
    """Decode a request message."""
    raws = message.raw_input_contents
    if not message.inputs:
        raise RequestError("the request has no inputs")
    if raws and len(raws) != len(message.inputs):
        raise RequestError(f"{len(message.inputs)} inputs but {len(raws)} raw_input_contents")
    inputs: Tensors = {}
    datatypes: dict[str, str] = {}
    for place, tensor in enumerate(message.inputs):
        if tensor.name in inputs:
            raise RequestError(f"input {tensor.name!r} is given twice")
        inputs[tensor.name] = _array(tensor, raws[place] if raws else None)
        datatypes[tensor.name] = tensor.datatype
    outputs = tuple(RequestedOutput(o.name, binary=True) for o in message.outputs)
    return InferRequest(inputs, datatypes, outputs, message.id, parameters(message.parameters))


def encode(answer: InferAnswer, request: InferRequest) -> "pb.ModelInferResponse":
    """Encode an answer with raw tensors."""
    message = pb.ModelInferResponse(model_name=answer.model, model_version="1", id=answer.id)
    for name, value in answer.parameters.items():
        message.parameters[name].CopyFrom(_parameter(value))
    for name in [o.name for o in request.outputs] or answer.outputs:
        array = answer.outputs[name]
        message.outputs.add(name=name, datatype=answer.datatypes[name], shape=array.shape)
        message.raw_output_contents.append(to_bytes(array, answer.datatypes[name]))
    return message


def parameters(given: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return protocol parameters as plain values."""
    chosen = ((name, p, p.WhichOneof("parameter_choice")) for name, p in given.items())
    return {name: getattr(p, which) for name, p, which in chosen if which is not None}


def _parameter(value: Parameter) -> "pb.InferParameter":
    if isinstance(value, bool):
        return pb.InferParameter(bool_param=value)
    if isinstance(value, int):
        return pb.InferParameter(int64_param=value)
    if isinstance(value, float):
        return pb.InferParameter(double_param=value)
    return pb.InferParameter(string_param=value)


def _array(tensor: Any, raw: bytes | None) -> NDArray[Any]:
    shape = checked_shape(list(tensor.shape), tensor.name)
    if raw is not None:
        if tensor.HasField("contents"):
            raise RequestError(f"input {tensor.name!r} has contents and raw_input_contents; send one of them")
        return from_bytes(raw, tensor.datatype, shape, tensor.name)
    field = _CONTENTS.get(tensor.datatype)
    if field is None:
        numpy_type(tensor.datatype, tensor.name)
        raise RequestError(f"input {tensor.name!r}: {tensor.datatype} travels only in raw_input_contents")
    return _typed(getattr(tensor.contents, field), tensor, shape)


def _typed(values: Iterable[Any], tensor: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    elements = list(values)
    if len(elements) != prod(shape):
        raise RequestError(f"input {tensor.name!r}: shape {list(shape)} takes {prod(shape)} elements, found {len(elements)}")
    if tensor.datatype == "BYTES":
        array = np.empty(len(elements), dtype=object)
        array[:] = elements
        return array.reshape(shape)
    try:
        return np.array(elements, dtype=numpy_type(tensor.datatype, tensor.name)).reshape(shape)
    except OverflowError as e:
        raise RequestError(f"input {tensor.name!r}: a value does not fit {tensor.datatype}: {e}") from e
