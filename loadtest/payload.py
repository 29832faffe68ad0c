"""Prepare request bodies before a run: a pool of distinct inputs, encoded once by tritonclient."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bakeoff.errors import LoadError
from loadtest.metadata import DATATYPES, ModelMetadata, Tensor

Arrays = dict[str, NDArray[Any]]
MOST_BYTES = 1 << 30
VARYING_LENGTH = 16


@dataclass(frozen=True, slots=True)
class HttpBody:
    """Hold an encoded HTTP body; `json_size` is the length of its JSON part, None when there is nothing else."""

    data: bytes
    json_size: int | None


def random_arrays(metadata: ModelMetadata, items: int, distinct: int, seed: int) -> list[Arrays]:
    """Return `distinct` random inputs of a model; integers are 0 or 1, valid as token, mask and class alike, bytes are any."""
    rng = np.random.default_rng(seed)
    return [{t.name: _random(t, items, rng) for t in metadata.inputs} for _ in range(distinct)]


def stored_arrays(path: Path, metadata: ModelMetadata, items: int, distinct: int, seed: int) -> list[Arrays]:
    """Return up to `distinct` inputs of `items` samples each from an .npz of one array an input, samples first, seeded order."""
    samples = _read(path, metadata)
    count = len(next(iter(samples.values())))
    order = np.random.default_rng(seed).permutation(count)
    groups = [order[k : k + items] for k in range(0, count - items + 1, items)][:distinct]
    if not groups:
        raise LoadError(f"{path} holds {count} samples, but a request takes {items}: give more samples or fewer items")
    return [{name: array[group] for name, array in samples.items()} for group in groups]


def encode_http(metadata: ModelMetadata, pool: list[Arrays]) -> list[HttpBody]:
    """Encode inputs as Open Inference Protocol bodies with binary tensors, outputs requested as binary."""
    from tritonclient import http

    outputs = [http.InferRequestedOutput(t.name, binary_data=True) for t in metadata.outputs]
    bodies = (
        HttpBody(*http.InferenceServerClient.generate_request_body(_infer_inputs(http, metadata, arrays), outputs))
        for arrays in pool
    )
    return list(_bounded(bodies))


def encode_grpc(metadata: ModelMetadata, pool: list[Arrays]) -> list[bytes]:
    """Encode inputs as serialized ModelInferRequest messages with raw contents."""
    return list(_bounded(_grpc_request(metadata, arrays) for arrays in pool))


def _grpc_request(metadata: ModelMetadata, arrays: Arrays) -> bytes:
    from tritonclient.grpc import service_pb2
    from tritonclient.utils import serialize_byte_tensor

    request = service_pb2.ModelInferRequest(model_name=metadata.name)
    for tensor in metadata.inputs:
        array = arrays[tensor.name]
        request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=array.shape)
        raw = serialize_byte_tensor(array).item() if tensor.datatype == "BYTES" else array.tobytes()
        request.raw_input_contents.append(raw)
    for output in metadata.outputs:
        request.outputs.add(name=output.name)
    return bytes(request.SerializeToString())


def _infer_inputs(http: Any, metadata: ModelMetadata, arrays: Arrays) -> list[Any]:
    return [_infer_input(http, tensor, arrays[tensor.name]) for tensor in metadata.inputs]


def _infer_input(http: Any, tensor: Tensor, array: NDArray[Any]) -> Any:
    infer_input = http.InferInput(tensor.name, list(array.shape), tensor.datatype)
    values = _bfloat16(array) if tensor.datatype == "BF16" else array
    return infer_input.set_data_from_numpy(values, binary_data=True)


def _bfloat16(bits: NDArray[np.uint16]) -> NDArray[Any]:
    """Return bit patterns as tritonclient takes them: ml_dtypes.bfloat16 since its release 26.06, float32 before."""
    from tritonclient.utils import triton_to_np_dtype

    native = np.dtype(triton_to_np_dtype("BF16"))
    return bits.view(native) if native.itemsize == 2 else (bits.astype(np.uint32) << 16).view(np.float32)


def _bounded(bodies: Iterator[Any]) -> Iterator[Any]:
    """Pass bodies on until they would fill more memory than a pool may."""
    total = 0
    for body in bodies:
        total += len(body.data if isinstance(body, HttpBody) else body)
        if total > MOST_BYTES:
            raise LoadError(f"the pool of request bodies is over {MOST_BYTES} bytes: ask for fewer distinct inputs")
        yield body


def _random(tensor: Tensor, items: int, rng: np.random.Generator) -> NDArray[Any]:
    shape = tensor.concrete(items, VARYING_LENGTH)
    if tensor.datatype == "BYTES":
        texts = [b"text %d" % n for n in rng.integers(0, 1_000_000, size=int(np.prod(shape)))]
        return np.array(texts, dtype=object).reshape(shape)
    dtype = _dtype(tensor)
    if tensor.datatype == "BF16":
        return (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 256 if tensor.datatype == "UINT8" else 2, size=shape).astype(dtype)


def _read(path: Path, metadata: ModelMetadata) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {t.name: _checked(path, t, stored[t.name]) for t in metadata.inputs}
    except KeyError as e:
        raise LoadError(f"{path} lacks an input of {metadata.name}: {e}. It must hold {[t.name for t in metadata.inputs]}") from e
    except (OSError, ValueError) as e:
        raise LoadError(f"cannot read {path}: {e}. It must be an .npz of plain arrays (texts as fixed-length bytes)") from e
    if len({len(a) for a in arrays.values()}) != 1:
        raise LoadError(f"{path} holds different numbers of samples: { {n: len(a) for n, a in arrays.items()} }")
    return arrays


def _checked(path: Path, tensor: Tensor, array: NDArray[Any]) -> NDArray[Any]:
    fits = len(array.shape) == len(tensor.shape) and all(
        d in (-1, n) for d, n in zip(tensor.shape[1:], array.shape[1:], strict=True)
    )
    wanted = "bytes" if tensor.datatype == "BYTES" else str(_dtype(tensor))
    if not fits or (array.dtype.kind != "S" if wanted == "bytes" else str(array.dtype) != wanted):
        raise LoadError(
            f"{path}: {tensor.name} is {array.dtype} {list(array.shape)}, but the model takes {wanted} {list(tensor.shape)}"
        )
    return array.astype(object) if wanted == "bytes" else array


def _dtype(tensor: Tensor) -> np.dtype[Any]:
    try:
        return np.dtype(DATATYPES[tensor.datatype])
    except KeyError as e:
        raise LoadError(
            f"{tensor.name} has the unknown datatype {tensor.datatype!r}: known are {sorted(DATATYPES)}, BYTES"
        ) from e
