"""The null server speaks enough of the protocol for tritonclient, in process of its own."""

import json
import urllib.error
import urllib.request

import numpy as np
import pytest

from bakeoff.errors import LoadError
from loadtest.metadata import ModelMetadata, Tensor, fetch_metadata
from loadtest.nullmodel import ECHO, NullModel
from loadtest.nullserver import NullServer

MODEL = ModelMetadata(
    name="m",
    inputs=(Tensor(name="x", datatype="FP32", shape=(-1, 3)),),
    outputs=(Tensor(name="y", datatype="INT64", shape=(-1, 2)), Tensor(name="z", datatype="BYTES", shape=(-1, 1))),
)


@pytest.fixture(scope="module")
def server():
    with NullServer(0.004, metadata=MODEL, items=2) as server:
        yield server


def test_metadata_is_that_of_the_imitated_model_under_the_name_asked_for(server):
    assert fetch_metadata(server.base_url, "other") == MODEL.model_copy(update={"name": "other"})


@pytest.mark.parametrize("path", ["/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/m/ready"])
def test_health_and_readiness_are_answered(server, path):
    with urllib.request.urlopen(server.base_url + path, timeout=30) as answer:
        assert answer.status == 200


def test_anything_else_is_a_json_error(server):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(server.base_url + "/metrics", timeout=30)
    with caught.value as error:
        assert error.code == 404
        assert "unknown request" in json.loads(error.read())["error"]


def test_an_answer_is_read_by_tritonclient():
    from tritonclient.http import InferenceServerClient

    described, tensors = NullModel(MODEL, items=2).infer("arm-1", queue_ns=5, execution_ns=7)
    result = InferenceServerClient.parse_response_body(described + tensors, header_length=len(described))
    assert np.array_equal(result.as_numpy("y"), np.zeros((2, 2), np.int64))
    assert result.as_numpy("z").ravel().tolist() == [b"", b""]
    assert result.get_response()["parameters"] == {"arm": "arm-1", "batch_size": 2, "queue_ns": 5, "execution_ns": 7}


def test_a_body_in_many_pieces_is_one_request(server):
    import http.client

    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"), timeout=30)
    for _ in range(2):
        connection.putrequest("POST", "/v2/models/m/infer")
        connection.putheader("Content-Length", "300000")
        connection.endheaders()
        for _ in range(3):
            connection.send(bytes(100_000))
        answer = connection.getresponse()
        size = int(answer.headers["Inference-Header-Content-Length"])
        said = json.loads(answer.read()[:size])["parameters"]
        assert (said["arm"], said["execution_ns"]) == ("m", 4_000_000)
    connection.close()


def test_metadata_that_is_none_is_refused():
    with pytest.raises(LoadError, match="not the metadata"):
        ModelMetadata.parse(b'{"name": "m"}')


def test_a_base_url_without_a_scheme_is_refused():
    with pytest.raises(LoadError, match="write http://host:port"):
        fetch_metadata("localhost:8000", "m")


def test_the_default_model_needs_no_metadata():
    assert (
        NullModel().describe("a")
        == json.dumps({"platform": "null", "versions": ["1"], **ECHO.model_dump(), "name": "a"}).encode()
    )
