"""Tensors on the wire: round trips, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bakeoff.errors import RequestError
from serve.protocol.tensors import NUMPY_TYPES, checked_shape, from_bytes, from_json, to_bytes, to_json

plain = [name for name in NUMPY_TYPES if name != "BYTES"]


@given(st.data(), st.sampled_from(plain))
def test_binary_tensors_come_back_bit_for_bit(data, datatype):
    array = data.draw(hnp.arrays(NUMPY_TYPES[datatype], hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)))
    raw = to_bytes(array, datatype)
    assert from_bytes(raw, datatype, array.shape, "x").tobytes() == array.tobytes()


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_bytes_tensors_come_back_whole(elements):
    array = np.empty(len(elements), dtype=object)
    array[:] = elements
    assert from_bytes(to_bytes(array, "BYTES"), "BYTES", (len(elements),), "x").tolist() == elements


@pytest.mark.parametrize("datatype", [d for d in plain if d not in {"FP16", "BF16"}])
def test_json_tensors_come_back(datatype):
    array = np.array([[0, 1], [1, 0]]).astype(NUMPY_TYPES[datatype])
    assert from_json(to_json(array, datatype, "x"), datatype, (2, 2), "x").tolist() == array.tolist()


def test_json_tensors_may_be_nested():
    assert from_json([[1, 2], [3, 4]], "INT32", (2, 2), "x").tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_half_precision_has_no_json_form(datatype):
    with pytest.raises(RequestError, match="no JSON form"):
        from_json([1.0], datatype, (1,), "x")
    with pytest.raises(RequestError, match="ask for binary"):
        to_json(np.zeros(1), datatype, "x")


@pytest.mark.parametrize(
    ("data", "datatype", "shape", "message"),
    [
        ([1, 2], "INT8", (3,), "takes 3 elements, found 2"),
        ([300], "UINT8", (1,), "does not fit UINT8"),
        ([-1], "UINT32", (1,), "does not fit UINT32"),
        ([1.5], "INT64", (1,), "not whole"),
        ([True], "INT64", (1,), "not whole"),
        (["1"], "FP32", (1,), "no number"),
        ([2], "BOOL", (1,), "true, false, 0 or 1"),
        ([1], "BYTES", (1,), "are strings"),
        ("abc", "BYTES", (1,), "expected a list"),
        ([[1], 2], "INT32", (2,), "mixes lists and numbers"),
        ([1], "FP7", (1,), "unknown datatype 'FP7'"),
    ],
)
def test_json_that_does_not_fit_is_refused_with_its_reason(data, datatype, shape, message):
    with pytest.raises(RequestError, match=message):
        from_json(data, datatype, shape, "x")


@pytest.mark.parametrize(
    ("raw", "datatype", "shape", "message"),
    [
        (b"1234567", "FP32", (2,), "takes 8 bytes, found 7"),
        (b"\x05\x00\x00\x00ab", "BYTES", (1,), "5 bytes was announced, 2 are left"),
        (b"\x05\x00", "BYTES", (1,), "4-byte length was expected"),
        (b"\x01\x00\x00\x00a", "BYTES", (2,), "takes 2 elements, found 1"),
    ],
)
def test_bytes_that_do_not_fit_are_refused_with_both_numbers(raw, datatype, shape, message):
    with pytest.raises(RequestError, match=message):
        from_bytes(raw, datatype, shape, "x")


@pytest.mark.parametrize("shape", [None, "12", [1.5], [-1], [True], [2**20, 2**20]])
def test_a_shape_that_is_none_is_refused(shape):
    with pytest.raises(RequestError):
        checked_shape(shape, "x")
