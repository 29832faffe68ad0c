"""Bodies hold exactly the inputs that the model's metadata asks for, on both wires."""

import json
import subprocess
import sys

import numpy as np
import pytest

from bakeoff.errors import LoadError
from loadtest.metadata import ModelMetadata, Tensor
from loadtest.payload import HttpBody, encode_http, random_arrays, stored_arrays

IMAGES = ModelMetadata(
    name="resnet50",
    inputs=(Tensor(name="image", datatype="UINT8", shape=(-1, 2, 3)), Tensor(name="scale", datatype="FP32", shape=(-1, 1))),
    outputs=(Tensor(name="logits", datatype="FP32", shape=(-1, 10)),),
)


def model(datatype: str, shape: tuple[int, ...] = (-1, 3)) -> ModelMetadata:
    return ModelMetadata(name="m", inputs=(Tensor(name="x", datatype=datatype, shape=shape),), outputs=())


def split(body: HttpBody) -> tuple[dict, bytes]:
    return json.loads(body.data[: body.json_size]), body.data[body.json_size :]


def test_an_http_body_is_json_followed_by_the_tensors_in_order():
    [arrays] = random_arrays(IMAGES, items=2, distinct=1, seed=3)
    described, raw = split(encode_http(IMAGES, [arrays])[0])
    assert [(i["name"], i["datatype"], i["shape"]) for i in described["inputs"]] == [
        ("image", "UINT8", [2, 2, 3]),
        ("scale", "FP32", [2, 1]),
    ]
    assert raw == arrays["image"].tobytes() + arrays["scale"].tobytes()
    assert described["outputs"] == [{"name": "logits", "parameters": {"binary_data": True}}]


GRPC_BODY = """
import sys
import numpy as np
from loadtest.metadata import ModelMetadata
from loadtest.payload import encode_grpc
from tritonclient.grpc import service_pb2

arrays = {name: array for name, array in np.load(sys.argv[2]).items()}
message = service_pb2.ModelInferRequest.FromString(encode_grpc(ModelMetadata.model_validate_json(sys.argv[1]), [arrays])[0])
assert message.model_name == "resnet50"
assert [list(i.shape) for i in message.inputs] == [[2, 2, 3], [2, 1]]
assert list(message.raw_input_contents) == [arrays["image"].tobytes(), arrays["scale"].tobytes()]
assert [o.name for o in message.outputs] == ["logits"]
"""


def test_a_grpc_body_holds_the_same_tensors_and_names_the_model(tmp_path):
    """Run apart: tritonclient's message definitions cannot share a process with the server's, which other tests load."""
    [arrays] = random_arrays(IMAGES, items=2, distinct=1, seed=3)
    np.savez(tmp_path / "arrays.npz", **arrays)
    command = [sys.executable, "-W", "ignore", "-c", GRPC_BODY, IMAGES.model_dump_json(), str(tmp_path / "arrays.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "datatype",
    ["BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "FP32", "FP64", "BYTES"],
)
def test_tritonclient_reads_every_datatype_back(datatype):
    from tritonclient.utils import deserialize_bytes_tensor, triton_to_np_dtype

    [arrays] = random_arrays(model(datatype), items=1, distinct=1, seed=1)
    _, raw = split(encode_http(model(datatype), [arrays])[0])
    read = deserialize_bytes_tensor(raw) if datatype == "BYTES" else np.frombuffer(raw, triton_to_np_dtype(datatype))
    assert read.tolist() == arrays["x"].ravel().tolist()


def test_bfloat16_travels_as_its_bit_pattern():
    [arrays] = random_arrays(model("BF16"), items=1, distinct=1, seed=1)
    assert split(encode_http(model("BF16"), [arrays])[0])[1] == arrays["x"].tobytes()
    values = (arrays["x"].astype(np.uint32) << 16).view(np.float32)
    assert np.isfinite(values).all()
    assert (values != 0).all()


def test_inputs_are_distinct_and_fixed_by_the_seed():
    first, again = (random_arrays(IMAGES, 1, 8, seed=5) for _ in range(2))
    assert all(np.array_equal(a["image"], b["image"]) for a, b in zip(first, again, strict=True))
    assert len({a["scale"].tobytes() for a in first}) == 8
    assert not np.array_equal(first[0]["scale"], random_arrays(IMAGES, 1, 1, seed=6)[0]["scale"])


def test_a_fixed_first_dimension_is_kept_and_allows_one_item_only():
    assert random_arrays(model("FP32", (16,)), 1, 1, 1)[0]["x"].shape == (16,)
    with pytest.raises(LoadError, match="send 1 item a request, not 2"):
        random_arrays(model("FP32", (16,)), 2, 1, 1)


@pytest.fixture
def images(tmp_path):
    path = tmp_path / "images.npz"
    np.savez(path, image=np.arange(5 * 6, dtype=np.uint8).reshape(5, 2, 3), scale=np.arange(5, dtype=np.float32).reshape(5, 1))
    return path


def test_stored_samples_are_all_sent_once_and_stay_together(images):
    pool = stored_arrays(images, IMAGES, items=1, distinct=100, seed=2)
    assert sorted(float(a["scale"][0, 0]) for a in pool) == [0, 1, 2, 3, 4]
    assert all(a["image"][0, 0, 0] == 6 * a["scale"][0, 0] for a in pool)


def test_stored_samples_are_grouped_by_items(images):
    assert [a["image"].shape for a in stored_arrays(images, IMAGES, items=2, distinct=100, seed=2)] == [(2, 2, 3)] * 2


def test_too_few_stored_samples_are_refused(images):
    with pytest.raises(LoadError, match="holds 5 samples, but a request takes 6"):
        stored_arrays(images, IMAGES, items=6, distinct=1, seed=1)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"image": np.zeros((5, 2, 3), np.uint8)}, "lacks an input"),
        ({"image": np.zeros((5, 2, 3), np.float32), "scale": np.zeros((5, 1), np.float32)}, "image is float32"),
        ({"image": np.zeros((5, 3, 3), np.uint8), "scale": np.zeros((5, 1), np.float32)}, "the model takes uint8"),
        ({"image": np.zeros((5, 2, 3), np.uint8), "scale": np.zeros((4, 1), np.float32)}, "different numbers of samples"),
        ({"image": np.array([{}], dtype=object)}, "plain arrays"),
    ],
)
def test_stored_inputs_that_do_not_fit_are_refused(tmp_path, arrays, message):
    path = tmp_path / "inputs.npz"
    np.savez(path, **arrays)
    with pytest.raises(LoadError, match=message):
        stored_arrays(path, IMAGES, 1, 1, 1)


def test_stored_texts_become_bytes_tensors(tmp_path):
    path = tmp_path / "texts.npz"
    np.savez(path, x=np.array([[b"one"], [b"three"]]))
    pool = stored_arrays(path, model("BYTES", (-1, 1)), 1, 2, seed=1)
    assert sorted(a["x"].item() for a in pool) == [b"one", b"three"]


def test_an_unknown_datatype_is_refused():
    with pytest.raises(LoadError, match="unknown datatype 'FP128'"):
        random_arrays(model("FP128"), 1, 1, 1)


def test_a_pool_beyond_its_memory_bound_is_refused(monkeypatch):
    monkeypatch.setattr("loadtest.payload.MOST_BYTES", 100)
    with pytest.raises(LoadError, match="over 100 bytes"):
        encode_http(IMAGES, random_arrays(IMAGES, 4, 4, 1))
