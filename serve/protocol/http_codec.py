"""Read and write inference over HTTP: a JSON head, binary tensors behind it."""

import json
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from bakeoff.errors import RequestError
from serve.protocol.messages import InferAnswer, InferRequest, Parameter, RequestedOutput, Tensors
from serve.protocol.tensors import checked_shape, from_bytes, from_json, to_bytes, to_json

HEAD_LENGTH = "inference-header-content-length"


def decode(body: bytes, head_length: str | None) -> InferRequest:
    """Decode a request body; `head_length` is the header that says where the JSON ends, None when all is JSON."""
    head, binary = _parts(body, head_length)
    document = _json_object(head)
    inputs: Tensors = {}
    datatypes: dict[str, str] = {}
    position = 0
    for entry in _list_of(document, "inputs"):
        name, datatype, shape = _described(entry)
        if name in inputs:
            raise RequestError(f"input {name!r} is given twice")
        size = _parameters(entry).get("binary_data_size")
        if size is None:
            inputs[name] = from_json(entry.get("data"), datatype, shape, name)
        else:
            inputs[name] = from_bytes(_slice(binary, position, size, name), datatype, shape, name)
            position += int(size)
        datatypes[name] = datatype
    if not inputs:
        raise RequestError("the request has no inputs")
    if position != len(binary):
        raise RequestError(f"{len(binary) - position} bytes follow the last binary tensor; sizes and {HEAD_LENGTH} disagree")
    return _request(document, inputs, datatypes)


def encode(answer: InferAnswer, request: InferRequest) -> tuple[list[bytes], int | None]:
    """Encode an answer as body parts and the length of its JSON head; None when no tensor is binary."""
    wanted = request.outputs or tuple(RequestedOutput(n, request.binary_by_default) for n in answer.outputs)
    described = [_output(output, answer) for output in wanted]
    document: dict[str, Any] = {"model_name": answer.model, "model_version": "1", "parameters": answer.parameters}
    if answer.id:
        document["id"] = answer.id
    document["outputs"] = [entry for entry, _ in described]
    head = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    tensors = [raw for _, raw in described if raw is not None]
    return [head, *tensors], len(head) if tensors else None


def error_body(message: str) -> bytes:
    """Return the JSON that every error answers with."""
    return json.dumps({"error": message}).encode()


def _parts(body: bytes, head_length: str | None) -> tuple[bytes, memoryview]:
    if head_length is None:
        return body, memoryview(b"")
    if not head_length.isascii() or not head_length.isdigit():
        raise RequestError(f"header {HEAD_LENGTH}: expected a whole number, found {head_length!r}")
    length = int(head_length)
    if length > len(body):
        raise RequestError(f"header {HEAD_LENGTH} says {length} bytes, the body has {len(body)}")
    return body[:length], memoryview(body)[length:]


def _json_object(head: bytes) -> dict[str, Any]:
    try:
        document = json.loads(head)
    except (ValueError, RecursionError) as e:
        raise RequestError(f"the request is not JSON: {e}") from e
    if not isinstance(document, dict):
        raise RequestError(f"expected a JSON object, found {type(document).__name__}")
    return document


def _list_of(document: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    entries = document.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise RequestError(f"{key!r}: expected a list of objects")
    return entries


def _described(entry: Mapping[str, Any]) -> tuple[str, str, tuple[int, ...]]:
    name, datatype = entry.get("name"), entry.get("datatype")
    if not isinstance(name, str) or not isinstance(datatype, str):
        raise RequestError("an input needs a name and a datatype, both strings")
    return name, datatype, checked_shape(entry.get("shape"), name)


def _parameters(document: Mapping[str, Any]) -> dict[str, Parameter]:
    parameters = document.get("parameters", {})
    if not isinstance(parameters, dict):
        raise RequestError(f"parameters: expected an object, found {type(parameters).__name__}")
    return parameters


def _slice(binary: memoryview, position: int, size: object, name: str) -> memoryview:
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise RequestError(f"input {name!r}: binary_data_size is a whole number from 0, found {size!r}")
    if position + size > len(binary):
        raise RequestError(f"input {name!r}: {size} bytes announced, {len(binary) - position} left in the body")
    return binary[position : position + size]


def _request(document: Mapping[str, Any], inputs: Tensors, datatypes: Mapping[str, str]) -> InferRequest:
    parameters = _parameters(document)
    default = bool(parameters.get("binary_data_output", False))
    outputs = tuple(
        RequestedOutput(str(e.get("name")), bool(_parameters(e).get("binary_data", default)))
        for e in _list_of(document, "outputs")
    )
    return InferRequest(inputs, datatypes, outputs, str(document.get("id", "")), parameters, default)


def _output(output: RequestedOutput, answer: InferAnswer) -> tuple[dict[str, Any], bytes | None]:
    array: NDArray[Any] = answer.outputs[output.name]
    datatype = answer.datatypes[output.name]
    entry: dict[str, Any] = {"name": output.name, "datatype": datatype, "shape": list(array.shape)}
    if not output.binary:
        return {**entry, "data": to_json(array, datatype, output.name)}, None
    raw = to_bytes(array, datatype)
    return {**entry, "parameters": {"binary_data_size": len(raw)}}, raw
