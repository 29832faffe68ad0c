"""A request against the model's signature."""

import numpy as np
import pytest

from bakeoff.errors import RequestError
from models.servable import Signature, TensorSpec
from serve.protocol.messages import InferRequest, RequestedOutput
from serve.protocol.signature import check, shape_key

SIGNATURE = Signature(
    (TensorSpec("ids", "INT64", (-1,)), TensorSpec("mask", "INT64", (-1,))), (TensorSpec("logits", "FP32", (2,)),)
)


def request(ids=(2, 8), mask=(2, 8), datatype="INT64", outputs=()):
    inputs = {"ids": np.zeros(ids, np.int64), "mask": np.zeros(mask, np.int64)}
    return InferRequest(inputs, dict.fromkeys(inputs, datatype), tuple(RequestedOutput(o, True) for o in outputs))


def test_a_request_that_fits_returns_its_items():
    assert check(request(outputs=["logits"]), SIGNATURE, 8) == 2


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (request(datatype="INT32"), "'ids': expected datatype INT64, found INT32"),
        (request(ids=(2,)), r"'ids': expected shape \[-1, -1\]"),
        (request(ids=(2, 8, 1)), r"found \[2, 8, 1\]"),
        (request(ids=(3, 8)), "disagree on the batch dimension"),
        (request(ids=(0, 8), mask=(0, 8)), "at least one item"),
        (request(ids=(9, 8), mask=(9, 8)), "9 items.*at most 8"),
        (request(outputs=["logit"]), "unknown output 'logit'.*logits"),
        (InferRequest({"idx": np.zeros((1, 1))}, {"idx": "INT64"}), "expected the inputs ids, mask; found idx"),
        (InferRequest({"ids": np.zeros((1, 1))}, {"ids": "INT64"}), "found ids"),
    ],
)
def test_what_does_not_fit_is_named(bad, message):
    with pytest.raises(RequestError, match=message):
        check(bad, SIGNATURE, 8)


def test_a_fixed_dimension_must_match():
    signature = Signature((TensorSpec("image", "UINT8", (4, 4, 3)),), ())
    bad = InferRequest({"image": np.zeros((1, 4, 5, 3), np.uint8)}, {"image": "UINT8"})
    with pytest.raises(RequestError, match=r"expected shape \[-1, 4, 4, 3\].*found \[1, 4, 5, 3\]"):
        check(bad, signature, 8)


def test_requests_of_equal_lengths_share_a_shape_whatever_their_items():
    assert shape_key(request().inputs) == shape_key(request(ids=(5, 8), mask=(5, 8)).inputs)
    assert shape_key(request().inputs) != shape_key(request(ids=(2, 9), mask=(2, 9)).inputs)


@pytest.mark.parametrize(("ids", "message"), [([[0, 100]], "0 to 99"), ([[-1]], "0 to 99"), ([[1] * 6], "at most 5")])
def test_an_id_out_of_the_vocabulary_or_a_text_too_long_is_the_requests_fault_alone(ids, message):
    signature = Signature((TensorSpec("ids", "INT64", (-1,), limits=(0, 99), longest=5),), ())
    with pytest.raises(RequestError, match=message):
        check(InferRequest({"ids": np.array(ids)}, {"ids": "INT64"}), signature, 8)
