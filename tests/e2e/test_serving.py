"""A served experiment, asked as any client would ask it."""

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pytest
import tritonclient.http as triton
import xxhash

pytestmark = pytest.mark.e2e


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.host) as found:
        yield found


def tensor(n=3):
    found = triton.InferInput("INPUT0", [1, n], "FP32")
    found.set_data_from_numpy(np.arange(n, dtype=np.float32)[None])
    return found


def arm_of(answer):
    return answer.get_response()["parameters"]["arm"]


def call(server, method, path, body=None, headers=None):
    request = urllib.request.Request(server.http + path, method=method, data=body, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()


def raw_exchange(server, payload, port_of="http"):
    host, port = server.addresses[port_of].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(payload)
        connection.shutdown(socket.SHUT_WR)
        chunks = []
        try:
            while chunk := connection.recv(65536):
                chunks.append(chunk)
        except ConnectionResetError:
            pass
        return b"".join(chunks)


def test_tritonclient_http_gets_health_metadata_and_inference_by_model_and_by_arm_name(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.get_server_metadata()["name"] == "bakeoff"
    for name in ("echo", "echo-a", "echo-b"):
        assert client.is_model_ready(name)
        assert client.get_model_metadata(name)["inputs"] == [{"name": "INPUT0", "datatype": "FP32", "shape": [-1, -1]}]
        answer = client.infer(name, [tensor()], request_id="r1")
        assert answer.as_numpy("OUTPUT0").tolist() == [[0, 1, 2]]
        assert answer.get_response()["id"] == "r1"
        assert answer.get_response()["parameters"]["simulated"] is True
    assert {m["name"]: m["state"] for m in client.get_model_repository_index()} == dict.fromkeys(
        ["echo", "echo-a", "echo-b"], "READY"
    )


def test_tritonclient_grpc_gets_the_same(server):
    script = Path(__file__).parent / "grpc_client.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, server.grpc], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers["live"]
    assert answers["ready"]
    assert answers["server"] == "bakeoff"
    assert answers["large"] == 300_000
    assert len(answers["sticky"]) == 1
    for name in ("echo", "echo-a"):
        assert answers[name]["inputs"] == ["INPUT0"]
        assert answers[name]["ready"]
        assert answers[name]["output"] == [[1, 1, 1]]
        assert answers[name]["id"] == "r1"
    assert answers["echo-a"]["arm"] == "echo-a"
    codes = {name: status for name, (status, _) in answers["faults"].items()}
    assert codes == {
        "unknown model": "StatusCode.NOT_FOUND",
        "unknown name": "StatusCode.INVALID_ARGUMENT",
        "wrong datatype": "StatusCode.INVALID_ARGUMENT",
        "unknown version": "StatusCode.NOT_FOUND",
    }
    assert "nope" in answers["faults"]["unknown model"][1]
    assert "INPUT0" in answers["faults"]["unknown name"][1]


def test_a_key_sticks_to_its_arm_over_both_protocols(server, client):
    arms = {arm_of(client.infer("echo", [tensor()], headers={"bakeoff-key": "user7"})) for _ in range(8)}
    script = Path(__file__).parent / "grpc_client.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, server.grpc], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout)["sticky"] == list(arms)


def test_keys_share_the_arms_by_weight_and_as_the_hash_says(client):
    expected = {
        k: "echo-a" if xxhash.xxh32_intdigest(k.encode()) % 10_000 < 5_000 else "echo-b" for k in (f"user{i}" for i in range(40))
    }
    assert {k: arm_of(client.infer("echo", [tensor()], headers={"bakeoff-key": k})) for k in expected} == expected


def test_the_split_changes_live_and_refuses_nonsense(server, client):
    def put(model, document):
        return call(server, "PUT", f"/bakeoff/splits/{model}", json.dumps(document).encode())

    try:
        assert put("echo", {"weights": {"echo-b": 1}})[0] == 200
        assert Counter(arm_of(client.infer("echo", [tensor()])) for _ in range(30)) == {"echo-b": 30}
        assert json.loads(call(server, "GET", "/bakeoff/splits")[2]) == {"echo": {"echo-a": 0.0, "echo-b": 1.0}}
        for model, document, status, text in [
            ("nope", {"weights": {"echo-a": 1}}, 404, "unknown model"),
            ("echo", {"weights": {"x": 1}}, 400, "no arm of"),
            ("echo", {"weights": {"echo-a": -1}}, 400, "numbers from 0"),
            ("echo", {"weights": {"echo-a": 0}}, 400, "numbers from 0"),
            ("echo", [], 400, "JSON object"),
        ]:
            found, _, body = put(model, document)
            assert (found, text in json.loads(body)["error"]) == (status, True)
        assert Counter(arm_of(client.infer("echo", [tensor()])) for _ in range(10)) == {"echo-b": 10}
    finally:
        assert put("echo", {"weights": {"echo-a": 50, "echo-b": 50}})[0] == 200


def infer_body(**changes):
    return json.dumps({"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 2], "data": [1, 2], **changes}]}).encode()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("POST", "/v2/models/nope/infer", infer_body(), 404, "unknown model nope"),
        ("POST", "/v2/models/no%22pe/infer", infer_body(), 404, 'unknown model no"pe'),
        ("POST", "/v2/models/echo/versions/9/infer", infer_body(), 404, "unknown version"),
        ("GET", "/v2/models/echo/infer", None, 405, "takes POST"),
        ("POST", "/v2/models/echo/ready", b"", 405, "takes GET"),
        ("GET", "/v2/models/echo/nothing", None, 404, "no such path"),
        ("GET", "/elsewhere", None, 404, "no such path"),
        ("POST", "/v2/models/echo/infer", b"", 400, "not JSON"),
        ("POST", "/v2/models/echo/infer", b"\x00\xff", 400, "not JSON"),
        ("POST", "/v2/models/echo/infer", infer_body(name="X"), 400, "expected the inputs INPUT0; found X"),
        ("POST", "/v2/models/echo/infer", infer_body(datatype="INT32"), 400, "expected datatype FP32"),
        ("POST", "/v2/models/echo/infer", infer_body(shape=[2]), 400, "expected shape"),
        ("POST", "/v2/models/echo/infer", infer_body(shape=[1, 3]), 400, "takes 3 elements, found 2"),
        ("POST", "/v2/models/echo/infer", infer_body(shape=[9, 1], data=[0] * 9), 400, "at most 8"),
    ],
)
def test_a_bad_request_gets_a_clear_json_error_and_the_server_keeps_serving(server, client, method, path, body, status, text):
    found, headers, answer = call(server, method, path, body)
    assert (found, headers["content-type"]) == (status, "application/json")
    assert text in json.loads(answer)["error"]
    assert client.infer("echo", [tensor()]).as_numpy("OUTPUT0").tolist() == [[0, 1, 2]]


def test_a_head_length_beyond_the_body_is_refused(server):
    status, _, body = call(server, "POST", "/v2/models/echo/infer", infer_body(), {"Inference-Header-Content-Length": "9999"})
    assert status == 400
    assert "9999 bytes" in json.loads(body)["error"]


def test_a_body_that_ends_early_does_not_disturb_the_server(server, client):
    head = b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
    answer = raw_exchange(server, head + b"{")
    assert not answer or answer.split()[1].startswith(b"4")
    assert client.infer("echo", [tensor()]).as_numpy("OUTPUT0").tolist() == [[0, 1, 2]]


def test_an_oversize_body_is_refused_before_it_is_read(server, client):
    head = b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
    host, port = server.host.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head)
        answer = connection.recv(65536)
    assert answer.split()[1] == b"413"
    assert b'{"error"' in answer
    assert client.is_model_ready("echo")


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 500, bytes(range(256)) * 40])
def test_garbage_on_the_grpc_port_is_turned_away_and_grpc_keeps_working(server, client, garbage):
    raw_exchange(server, garbage, "grpc")
    raw_exchange(server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + garbage, "grpc")
    assert client.infer("echo", [tensor()]).as_numpy("OUTPUT0").tolist() == [[0, 1, 2]]
    script = Path(__file__).parent / "grpc_client.py"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, server.grpc], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_exporter_counts_the_requests_and_has_no_gpu_series_without_a_gpu(server, client):
    client.infer("echo-a", [tensor()])
    with urllib.request.urlopen(server.addresses["metrics"], timeout=10) as answer:
        page = answer.read().decode()
    assert 'bakeoff_inference_requests_total{arm="echo-a",model="echo",outcome="ok",pool="cpu",precision="fp32"}' in page
    assert 'bakeoff_inference_request_duration_seconds_bucket{arm="echo-a",le="0.25"' in page
    assert "bakeoff_gpu_power_draw_watts{" not in page
    with urllib.request.urlopen(server.addresses["front_metrics"], timeout=10) as answer:
        assert "haproxy_frontend_http_requests_total" in answer.read().decode()


def test_only_loopback_is_listened_on(server):
    listening = [
        (process.name(), c.laddr)
        for process in server.descendants()
        for c in process.net_connections(kind="inet")
        if c.status == psutil.CONN_LISTEN and "haproxy" in process.name()
    ]
    assert len(listening) >= 3
    front = {int(server.addresses[k].removeprefix("http://").split(":")[1].split("/")[0]) for k in ("http", "grpc")}
    assert {address.ip for _, address in listening if address.port in front} == {"127.0.0.1"}
