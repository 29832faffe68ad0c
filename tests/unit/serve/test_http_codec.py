"""The HTTP codec against tritonclient's own encoder and decoder, and against damaged requests."""

import contextlib
import json

import numpy as np
import pytest
import tritonclient.http as triton
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.errors import RequestError
from serve.protocol.http_codec import HEAD_LENGTH, decode, encode, error_body
from serve.protocol.messages import InferAnswer

VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


def triton_body(binary_in=True, outputs=None, **kwargs):
    tensor = triton.InferInput("x", [2, 3], "FP32")
    tensor.set_data_from_numpy(VALUES, binary_data=binary_in)
    body, length = triton.InferenceServerClient.generate_request_body([tensor], outputs=outputs, **kwargs)
    return body, None if length is None else str(length)


def answer(**outputs):
    datatypes = {"float32": "FP32", "object": "BYTES", "int64": "INT64"}
    return InferAnswer("m", outputs, {n: datatypes[str(a.dtype)] for n, a in outputs.items()}, {"arm": "m-a"}, "7")


@pytest.mark.parametrize("binary", [True, False])
def test_what_tritonclient_encodes_is_decoded(binary):
    request = decode(*triton_body(binary))
    assert request.inputs["x"].tolist() == VALUES.tolist()
    assert request.datatypes == {"x": "FP32"}


def test_tritonclient_without_outputs_wants_all_of_them_binary():
    assert decode(*triton_body()).binary_by_default


def test_requested_outputs_parameters_and_id_arrive():
    wanted = [triton.InferRequestedOutput("y", binary_data=False)]
    request = decode(*triton_body(outputs=wanted, request_id="abc", timeout=1_500_000, parameters={"customer": "k"}))
    assert [(o.name, o.binary) for o in request.outputs] == [("y", False)]
    assert request.id == "abc"
    assert request.timeout_s == 1.5
    assert request.parameters["customer"] == "k"


@pytest.mark.parametrize("binary", [True, False])
def test_tritonclient_decodes_what_is_encoded(binary):
    request = decode(*triton_body(outputs=[triton.InferRequestedOutput(n, binary_data=binary) for n in ("y", "n")]))
    parts, length = encode(answer(y=VALUES, n=np.array([1, 2])), request)
    result = triton.InferenceServerClient.parse_response_body(b"".join(parts), header_length=length)
    assert result.as_numpy("y").tolist() == VALUES.tolist()
    assert result.as_numpy("n").tolist() == [1, 2]
    assert result.get_response()["id"] == "7"
    assert result.get_response()["parameters"] == {"arm": "m-a"}


def test_bytes_come_back_through_tritonclient():
    labels = np.array([b"cat", "käse".encode()], dtype=object)
    parts, length = encode(answer(label=labels), decode(*triton_body()))
    result = triton.InferenceServerClient.parse_response_body(b"".join(parts), header_length=length)
    assert result.as_numpy("label").tolist() == [b"cat", "käse".encode()]


def document(**changes):
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
    return {"inputs": [{**tensor, **changes}]}


@pytest.mark.parametrize(
    ("body", "length", "message"),
    [
        (b"", None, "not JSON"),
        (b"{", None, "not JSON"),
        (b"[1]", None, "JSON object"),
        (b"{}", None, "no inputs"),
        (b"{}", "abc", "whole number"),
        (b"{}", "-1", "whole number"),
        (b"{}", "99", "99 bytes, the body has 2"),
        (b'{"inputs": 3}', None, "list of objects"),
        (b'{"inputs": [{"name": "x"}]}', None, "name and a datatype"),
        (json.dumps(document(shape="12")).encode(), None, "expected a list as shape"),
        (json.dumps(document(data=[1])).encode(), None, "takes 2 elements, found 1"),
        (json.dumps({"inputs": document()["inputs"] * 2}).encode(), None, "given twice"),
        (json.dumps(document(parameters=[1])).encode(), None, "expected an object"),
        (json.dumps(document(parameters={"binary_data_size": -1})).encode(), None, "whole number from 0"),
        (json.dumps(document(parameters={"binary_data_size": 8})).encode(), None, "8 bytes announced, 0 left"),
        (b"[" * 100_000, None, "not JSON"),
    ],
)
def test_a_damaged_request_is_refused_with_its_reason(body, length, message):
    with pytest.raises(RequestError, match=message):
        decode(body, length)


@pytest.mark.parametrize("cut", [1, 4, 23])
def test_a_truncated_binary_body_is_refused(cut):
    body, length = triton_body()
    with pytest.raises(RequestError, match="announced"):
        decode(body[:-cut], length)


def test_bytes_behind_the_last_tensor_are_refused():
    body, length = triton_body()
    with pytest.raises(RequestError, match="3 bytes follow"):
        decode(body + b"abc", length)


@given(st.binary(max_size=200), st.none() | st.integers(0, 250).map(str))
def test_no_bytes_make_it_fail_otherwise(body, length):
    with contextlib.suppress(RequestError):
        decode(body, length)


odd = st.sampled_from(
    [None, True, -1, 3, 1.5, "x", [], [1, 2], [[1], 2], {}, {"binary_data_size": 1}, {"binary_data_size": None}]
)
tensor_like = st.fixed_dictionaries(
    {},
    optional={
        "name": st.just("x") | odd,
        "datatype": st.sampled_from(["FP32", "BYTES", "BOOL", "INT8", "FP16", "?"]) | odd,
        "shape": st.lists(st.integers(-1, 3), max_size=3) | odd,
        "data": st.lists(odd, max_size=3) | odd,
        "parameters": odd,
    },
)


@given(st.fixed_dictionaries({}, optional={"inputs": st.lists(tensor_like, max_size=2) | odd, "outputs": odd, "parameters": odd}))
def test_no_json_makes_it_fail_otherwise(value):
    with contextlib.suppress(RequestError):
        decode(json.dumps(value).encode(), None)


def test_errors_are_json():
    assert json.loads(error_body('say "no"')) == {"error": 'say "no"'}
    assert HEAD_LENGTH.lower() == HEAD_LENGTH
