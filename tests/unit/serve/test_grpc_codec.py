"""The gRPC codec, and its message definitions against tritonclient's (read in a process of their own)."""

import contextlib
import json
import subprocess
import sys

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from bakeoff.errors import RequestError
from serve.protocol import grpc_codec
from serve.protocol.messages import InferAnswer
from serve.protocol.stubs import inference_pb2 as pb

FIELDS = """
import json, sys
def fields(message):
    out = {f.name: [f.number, f.type, f.message_type.full_name if f.message_type else ""] for f in message.fields}
    nested = {n.name: fields(n) for n in message.nested_types}
    return {"fields": out, "nested": nested}
def describe(file):
    methods = {m.name: [m.input_type.name, m.output_type.name] for m in file.services_by_name["GRPCInferenceService"].methods}
    return {"messages": {n: fields(m) for n, m in file.message_types_by_name.items()}, "methods": methods}
"""


def described(module):
    code = f"from {module} import DESCRIPTOR{FIELDS}print(json.dumps(describe(DESCRIPTOR)))"
    return json.loads(
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, check=True, text=True).stdout
    )


def assert_within(ours, theirs):
    for name, field in ours["fields"].items():
        assert theirs["fields"][name] == field
    for name, nested in ours["nested"].items():
        assert_within(nested, theirs["nested"][name])


def test_every_message_and_method_of_ours_is_the_protocols():
    ours = described("serve.protocol.stubs.inference_pb2")
    theirs = described("tritonclient.grpc.service_pb2")
    assert len(ours["messages"]) >= 13
    for name, message in ours["messages"].items():
        assert_within(message, theirs["messages"][name])
    for name, types in ours["methods"].items():
        assert theirs["methods"][name] == types


def message(datatype="FP32", shape=(1, 2), raw=None, **contents):
    request = pb.ModelInferRequest(model_name="m", id="5")
    tensor = request.inputs.add(name="x", datatype=datatype, shape=shape)
    for field, values in contents.items():
        getattr(tensor.contents, field).extend(values)
    if raw is not None:
        request.raw_input_contents.append(raw)
    return request


def test_raw_tensors_and_parameters_arrive():
    request = message(raw=np.array([1, 2], dtype="<f4").tobytes())
    request.parameters["timeout"].int64_param = 250_000
    request.parameters["key"].string_param = "k"
    request.outputs.add(name="y")
    decoded = grpc_codec.decode(request)
    assert decoded.inputs["x"].tolist() == [[1, 2]]
    assert decoded.timeout_s == 0.25
    assert decoded.parameters["key"] == "k"
    assert [o.name for o in decoded.outputs] == ["y"]


@pytest.mark.parametrize(
    ("datatype", "field", "values"),
    [
        ("BOOL", "bool_contents", [True, False]),
        ("INT8", "int_contents", [-1, 2]),
        ("INT64", "int64_contents", [-1, 2]),
        ("UINT8", "uint_contents", [1, 2]),
        ("UINT64", "uint64_contents", [1, 2]),
        ("FP32", "fp32_contents", [0.5, 2]),
        ("FP64", "fp64_contents", [0.5, 2]),
        ("BYTES", "bytes_contents", [b"a", b"bc"]),
    ],
)
def test_typed_contents_arrive(datatype, field, values):
    assert grpc_codec.decode(message(datatype, **{field: values})).inputs["x"].tolist() == [values]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (pb.ModelInferRequest(model_name="m"), "no inputs"),
        (message(raw=b"123"), "takes 8 bytes, found 3"),
        (message(fp32_contents=[1]), "takes 2 elements, found 1"),
        (message("INT8", int_contents=[1, 300]), "does not fit INT8"),
        (message("FP16"), "only in raw_input_contents"),
        (message("FP9"), "unknown datatype"),
        (message(shape=(-1, 2)), "whole numbers from 0"),
        (message(fp32_contents=[1, 2], raw=b"12345678"), "send one of them"),
    ],
)
def test_a_damaged_message_is_refused_with_its_reason(request_, text):
    with pytest.raises(RequestError, match=text):
        grpc_codec.decode(request_)


def test_as_many_raw_tensors_as_inputs_are_expected():
    request = message(raw=b"12345678")
    request.raw_input_contents.append(b"")
    with pytest.raises(RequestError, match="1 inputs but 2"):
        grpc_codec.decode(request)


@given(st.binary(max_size=300))
def test_no_message_that_parses_makes_it_fail_otherwise(raw):
    with contextlib.suppress(RequestError, DecodeError):
        grpc_codec.decode(pb.ModelInferRequest.FromString(raw))


def test_an_answer_carries_raw_tensors_and_typed_parameters():
    parameters = {"arm": "a", "queue_ns": 5, "simulated": True, "load": 0.5}
    answer = InferAnswer(
        "m", {"y": np.ones((1, 2), np.float32), "z": np.zeros(1, np.int64)}, {"y": "FP32", "z": "INT64"}, parameters, "5"
    )
    encoded = grpc_codec.encode(answer, grpc_codec.decode(message(raw=bytes(8))))
    assert encoded.id == "5"
    assert [o.name for o in encoded.outputs] == ["y", "z"]
    assert np.frombuffer(encoded.raw_output_contents[0], "<f4").tolist() == [1, 1]
    assert grpc_codec.parameters(encoded.parameters) == parameters
