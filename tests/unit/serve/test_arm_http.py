"""An arm over plain ASGI: routes, errors, bodies, and that every ending is counted once."""

import asyncio
import json

import numpy as np
import pytest

from bakeoff.errors import EngineError, NotReady, UnknownModel
from bakeoff.hosting import Batching
from models.servable import Signature, TensorSpec
from monitoring.requestseries import ArmSeries
from serve.arm import ArmService, Identity
from serve.arm_http import ArmHttp, split_path


class Doubler:
    """A servable that doubles its input; it can be made to fail or to answer NaN."""

    signature = Signature((TensorSpec("x", "FP32", (2,)),), (TensorSpec("y", "FP32", (2,)),))
    metadata = {"engine": "doubler"}

    def __init__(self):
        self.warmed, self.closed, self.fail = (), False, None

    def warm_up(self, batch_sizes):
        self.warmed = tuple(batch_sizes)

    def run(self, inputs):
        if self.fail:
            raise self.fail
        return {"y": inputs["x"] * 2}

    def close(self):
        self.closed = True


class Client:
    """Call an ASGI application and keep what it sent."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, method, path, body=b"", headers=(), messages=None):
        queue = list(messages or [{"type": "http.request", "body": body}])
        sent = []

        async def receive():
            return queue.pop(0) if queue else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": method, "path": "/arms/m-a" + path, "root_path": "/arms/m-a", "headers": list(headers)}
        await self.app(scope, receive, send)
        if not sent:
            return None
        return sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}, sent[1]["body"]


@pytest.fixture
async def arm():
    servable = Doubler()
    series = ArmSeries("m", "m-a", "fp32", "cpu", 0.5)
    service = ArmService(Identity("m", "m-a", "fp32", "cpu", None), servable, Batching(max_batch_size=4), series)
    yield servable, series, service, Client(ArmHttp(service, max_body_bytes=10_000))
    await service.close()


def count(series, outcome):
    return series.registry.get_sample_value(
        "bakeoff_inference_requests_total",
        {"model": "m", "arm": "m-a", "precision": "fp32", "pool": "cpu", "outcome": outcome},
    )


def body(values=(1.0, 2.0), **extra):
    return json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": list(values)}], **extra}).encode()


async def test_the_engine_is_warm_at_every_bucket_before_the_arm_exists(arm):
    servable, *_ = arm
    assert servable.warmed == (1, 2, 4)


@pytest.mark.parametrize("name", ["m", "m-a"])
async def test_model_and_arm_name_are_both_served(arm, name):
    *_, client = arm
    status, headers, answer = await client("POST", f"/v2/models/{name}/infer", body())
    document = json.loads(answer)
    assert (status, headers["bakeoff-arm"]) == (200, "m-a")
    assert document["model_name"] == name
    assert document["outputs"][0]["data"] == [2.0, 4.0]
    assert document["parameters"]["arm"] == "m-a"
    assert document["parameters"]["batch_size"] == 1
    assert document["parameters"]["execution_ns"] >= 0


async def test_metadata_and_readiness(arm):
    *_, client = arm
    status, _, answer = await client("GET", "/v2/models/m")
    assert status == 200
    assert json.loads(answer)["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    assert (await client("GET", "/v2/models/m/ready"))[0] == 200
    assert (await client("GET", "/v2/models/m/versions/1/ready"))[0] == 200


async def test_a_closed_arm_is_not_ready_and_gives_its_memory_back(arm):
    servable, _, service, client = arm
    await service.close()
    assert servable.closed
    status, _, answer = await client("GET", "/v2/models/m/ready")
    assert status == 503
    assert "shutting down" in json.loads(answer)["error"]


async def test_every_ending_is_counted_once(arm):
    servable, series, _, client = arm
    assert (await client("POST", "/v2/models/m/infer", body()))[0] == 200
    assert (await client("POST", "/v2/models/m/infer", b"{"))[0] == 400
    servable.fail = EngineError("the kernel broke")
    status, _, answer = await client("POST", "/v2/models/m/infer", body())
    assert (status, json.loads(answer)["error"]) == (500, "the kernel broke")
    assert [count(series, o) for o in ("ok", "client_error", "error", "timeout", "rejected", "cancelled")] == [1, 1, 1, 0, 0, 0]


async def test_a_nan_is_an_error_of_that_request_and_counted(arm):
    _, series, _, client = arm
    status, _, answer = await client("POST", "/v2/models/m/infer", body((float("inf"), 1.0)))
    assert status == 500
    assert "NaN or Inf" in json.loads(answer)["error"]
    labels = {"model": "m", "arm": "m-a", "precision": "fp32", "pool": "cpu"}
    assert series.registry.get_sample_value("bakeoff_inference_nonfinite_outputs_total", labels) == 1


async def test_a_cancelled_request_is_counted_as_cancelled(arm):
    servable, series, service, client = arm
    started = asyncio.Event()
    loop = asyncio.get_running_loop()
    release = asyncio.Event()

    def slow(inputs):
        loop.call_soon_threadsafe(started.set)
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(10)
        return {"y": inputs["x"]}

    servable.run = slow
    service._batcher._run = slow
    task = asyncio.create_task(client("POST", "/v2/models/m/infer", body()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    assert count(series, "cancelled") == 1


async def test_a_body_over_the_limit_is_refused_while_it_arrives(arm):
    *_, client = arm
    chunks = [{"type": "http.request", "body": b"x" * 6000, "more_body": True}] * 9
    status, _, answer = await client("POST", "/v2/models/m/infer", messages=chunks)
    assert status == 413
    assert "over 10000 bytes" in json.loads(answer)["error"]


async def test_a_client_that_goes_away_mid_body_gets_no_answer_and_breaks_nothing(arm):
    *_, client = arm
    assert (
        await client("POST", "/v2/models/m/infer", messages=[{"type": "http.request", "body": b"{", "more_body": True}]) is None
    )
    assert (await client("POST", "/v2/models/m/infer", body()))[0] == 200


async def test_an_unforeseen_error_is_a_json_500_without_details(arm):
    _, _, service, client = arm
    service._servable.signature = None
    status, _, answer = await client("POST", "/v2/models/m/infer", body())
    assert (status, json.loads(answer)["error"]) == (500, "internal error: AttributeError")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v2/models/m", ("m", "", "")),
        ("/v2/models/m/", ("m", "", "")),
        ("/v2/models/m/infer", ("m", "", "infer")),
        ("/v2/models/m/versions/1", ("m", "1", "")),
        ("/v2/models/m/versions/1/infer", ("m", "1", "infer")),
        ("/v2/models/m/a/b", ("m", "", "a/b")),
    ],
)
def test_paths_are_taken_apart(path, expected):
    assert split_path(path) == expected


@pytest.mark.parametrize("path", ["/", "/v2", "/v2/models", "/v1/models/m"])
def test_other_paths_are_unknown(path):
    with pytest.raises(UnknownModel, match="no such path"):
        split_path(path)


async def test_an_engine_that_hangs_makes_the_arm_unready(arm, monkeypatch):
    _, _, service, _ = arm
    monkeypatch.setattr(service._batcher, "stuck_for_s", lambda: 61.0)
    with pytest.raises(NotReady, match="in one call for 61 s"):
        service.check_health()


async def test_binary_answers_say_where_their_head_ends(arm):
    *_, client = arm
    values = np.array([[1, 2]], dtype="<f4").tobytes()
    head = json.dumps(
        {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    header = [(b"inference-header-content-length", str(len(head)).encode())]
    status, headers, answer = await client("POST", "/v2/models/m/infer", head + values, header)
    assert (status, headers["content-type"]) == (200, "application/octet-stream")
    assert np.frombuffer(answer[int(headers["inference-header-content-length"]) :], "<f4").tolist() == [2, 4]
