"""Turn tensors into bytes or JSON and back, as the Open Inference Protocol v2 defines them.

Little-endian, row-major. BYTES elements are a 4-byte length and that many bytes each. BF16 has no numpy type: it travels
as uint16 bit patterns. FP16 and BF16 have no JSON form.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bakeoff.errors import RequestError

NUMPY_TYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("bool"),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BYTES": np.dtype("object"),
}
_NOT_IN_JSON = frozenset({"FP16", "BF16"})
_INTEGERS = frozenset(name for name in NUMPY_TYPES if "INT" in name)
MAX_ELEMENTS = 2**31


def numpy_type(datatype: str, name: str) -> np.dtype[Any]:
    """Return the numpy type of a datatype; `name` is the tensor's, for the error."""
    found = NUMPY_TYPES.get(datatype)
    if found is None:
        raise RequestError(f"tensor {name!r}: unknown datatype {datatype!r}; expected one of {', '.join(NUMPY_TYPES)}")
    return found


def checked_shape(shape: object, name: str) -> tuple[int, ...]:
    """Return the shape as a tuple, or raise RequestError unless it is a list of whole numbers that are not negative."""
    if not isinstance(shape, Sequence) or isinstance(shape, str | bytes):
        raise RequestError(f"tensor {name!r}: expected a list as shape, found {type(shape).__name__}")
    if not all(isinstance(d, int) and not isinstance(d, bool) and d >= 0 for d in shape):
        raise RequestError(f"tensor {name!r}: a shape is made of whole numbers from 0, found {list(shape)}")
    if prod(shape) > MAX_ELEMENTS:
        raise RequestError(f"tensor {name!r}: shape {list(shape)} has more than {MAX_ELEMENTS} elements")
    return tuple(shape)


def from_bytes(raw: bytes | memoryview, datatype: str, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Decode a binary tensor; the array may share memory with `raw`."""
    dtype = numpy_type(datatype, name)
    if datatype == "BYTES":
        return _strings(memoryview(raw), shape, name)
    expected = prod(shape) * dtype.itemsize
    if len(raw) != expected:
        raise RequestError(f"tensor {name!r}: {datatype} {list(shape)} takes {expected} bytes, found {len(raw)}")
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


def to_bytes(array: NDArray[Any], datatype: str) -> bytes:
    """Encode a tensor in binary form."""
    if datatype != "BYTES":
        return np.ascontiguousarray(array, dtype=NUMPY_TYPES[datatype]).tobytes()
    parts = []
    for element in array.ravel():
        value = element.encode() if isinstance(element, str) else bytes(element)
        parts += [len(value).to_bytes(4, "little"), value]
    return b"".join(parts)


def from_json(data: object, datatype: str, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    """Decode a JSON tensor, given flat or nested."""
    dtype = numpy_type(datatype, name)
    if datatype in _NOT_IN_JSON:
        raise RequestError(f"tensor {name!r}: {datatype} has no JSON form; send it as binary data")
    if not isinstance(data, list):
        raise RequestError(f"tensor {name!r}: expected a list as data, found {type(data).__name__}")
    flat = _flattened(data)
    if len(flat) != prod(shape):
        raise RequestError(f"tensor {name!r}: shape {list(shape)} takes {prod(shape)} elements, found {len(flat)}")
    if datatype == "BYTES":
        return _json_strings(flat, shape, name)
    return _json_numbers(flat, datatype, dtype, name).reshape(shape)


def to_json(array: NDArray[Any], datatype: str, name: str) -> list[Any]:
    """Encode a tensor as a flat JSON list; bytes that are no UTF-8 cannot be."""
    if datatype in _NOT_IN_JSON:
        raise RequestError(f"output {name!r}: {datatype} has no JSON form; ask for binary data")
    if datatype != "BYTES":
        flat: list[Any] = array.ravel().tolist()
        return flat
    try:
        return [e if isinstance(e, str) else bytes(e).decode() for e in array.ravel()]
    except UnicodeDecodeError as e:
        raise RequestError(f"output {name!r}: holds bytes that are no UTF-8; ask for binary data") from e


def _strings(raw: memoryview, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    elements: list[bytes] = []
    position = 0
    while position < len(raw):
        if position + 4 > len(raw):
            raise RequestError(f"tensor {name!r}: {len(raw) - position} bytes left where a 4-byte length was expected")
        size = int.from_bytes(raw[position : position + 4], "little")
        position += 4
        if position + size > len(raw):
            raise RequestError(f"tensor {name!r}: an element of {size} bytes was announced, {len(raw) - position} are left")
        elements.append(bytes(raw[position : position + size]))
        position += size
    if len(elements) != prod(shape):
        raise RequestError(f"tensor {name!r}: shape {list(shape)} takes {prod(shape)} elements, found {len(elements)}")
    return _objects(elements, shape)


def _objects(elements: list[bytes], shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    return array.reshape(shape)


def _flattened(data: list[Any]) -> list[Any]:
    while data and isinstance(data[0], list):
        if not all(isinstance(row, list) for row in data):
            raise RequestError("tensor data mixes lists and numbers at one level")
        data = [element for row in data for element in row]
    return data


def _json_strings(flat: list[Any], shape: tuple[int, ...], name: str) -> NDArray[Any]:
    if not all(isinstance(e, str) for e in flat):
        raise RequestError(f"tensor {name!r}: BYTES in JSON are strings, found another type")
    return _objects([e.encode() for e in flat], shape)


def _json_numbers(flat: list[Any], datatype: str, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    if not all(isinstance(e, bool | int | float) for e in flat):
        raise RequestError(f"tensor {name!r}: {datatype} data holds something that is no number")
    if datatype == "BOOL":
        return _json_booleans(flat, name)
    if datatype in _INTEGERS and not all(isinstance(e, int) and not isinstance(e, bool) for e in flat):
        raise RequestError(f"tensor {name!r}: {datatype} data holds a number that is not whole")
    try:
        return np.array(flat, dtype=dtype)
    except (OverflowError, ValueError) as e:
        raise RequestError(f"tensor {name!r}: a value does not fit {datatype}: {e}") from e


def _json_booleans(flat: list[Any], name: str) -> NDArray[Any]:
    if not all(e in (0, 1) for e in flat):
        raise RequestError(f"tensor {name!r}: BOOL data is true, false, 0 or 1")
    return np.array(flat, dtype=bool)
