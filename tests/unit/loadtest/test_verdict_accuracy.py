import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from bakeoff.errors import LoadError
from bakeoff.experiment import AccuracyGate, Experiment, parse
from loadtest.accuracy import judge, reference_of, run_gate, serving_path
from loadtest.accuracy_record import AccuracyRecord

CLASSES = 10
GATE = AccuracyGate(dataset="hand-made", ratio=0.95, bound="point")


@dataclass(frozen=True)
class HandMade:
    """Hold images whose first byte is their class, ten views to a picture."""

    name: str = "hand-made"
    note: str = "made by hand"
    n: int = 100

    @property
    def labels(self) -> Any:
        return np.arange(self.n) // 10 % CLASSES

    @property
    def groups(self) -> Any:
        return np.arange(self.n) // 10

    @property
    def images(self) -> Any:
        images = np.zeros((self.n, 4, 4, 3), dtype=np.uint8)
        images[:, 0, 0, 0] = self.labels
        return images


def answers(data: HandMade, wrong: int) -> Any:
    """Return probabilities that choose the label, but the class after it for the last `wrong` images."""
    chosen = data.labels.copy()
    chosen[data.n - wrong :] = (chosen[data.n - wrong :] + 1) % CLASSES
    return np.full((data.n, CLASSES), 0.02) + 0.8 * np.eye(CLASSES)[chosen]


def experiment(precisions: str = "fp32 int8", gate: bool = True) -> Experiment:
    arms = [{"model": "net", "name": f"net-{p}", "precision": p, "pool": "p"} for p in precisions.split()]
    for arm in arms:
        arm["batching"] = {"max_batch_size": 3}
    model = {"family": "x", **({"accuracy": GATE.model_dump()} if gate else {})}
    return parse({"name": "e", "pools": {"p": {"accelerator": "cpu"}}, "models": {"net": model}, "arms": arms}, "test")


def test_an_arm_is_judged_by_its_right_answers_over_the_references() -> None:
    data = HandMade()
    found = judge(GATE, data, answers(data, 14), ("ref", answers(data, 10)))
    assert (found.top1, found.reference_top1) == (pytest.approx(0.86), pytest.approx(0.90))
    assert found.ratio == pytest.approx(86 / 90)
    assert found.agreement == pytest.approx(0.96)
    assert found.passed


def test_an_arm_below_the_ratio_does_not_pass() -> None:
    data = HandMade()
    assert not judge(GATE, data, answers(data, 15), ("ref", answers(data, 10))).passed


def test_a_gate_on_the_lower_bound_is_stricter_than_one_on_the_point() -> None:
    data = HandMade()
    strict = GATE.model_copy(update={"bound": "lower95"})
    found = judge(strict, data, answers(data, 14), ("ref", answers(data, 10)))
    assert found.ratio_lower95 is not None
    assert found.ratio_lower95 < 0.95 < 86 / 90
    assert not found.passed


def test_an_arm_that_equals_its_reference_passes_any_gate() -> None:
    data = HandMade()
    strict = GATE.model_copy(update={"bound": "lower95", "ratio": 1.0})
    assert judge(strict, data, answers(data, 10), ("ref", answers(data, 10))).passed


def test_the_note_says_that_few_views_give_no_bound() -> None:
    data = HandMade()
    note = judge(GATE, data, answers(data, 0), ("ref", answers(data, 0))).note
    assert "100 views of 10 pictures are too few for a bound" in note
    assert "point estimate" in note


def test_without_an_fp32_arm_the_gate_is_not_run_and_not_passed() -> None:
    data = HandMade()
    record = run_gate(experiment("bf16 int8"), "net-bf16", "net-int8", lambda arm, images: answers(data, 0), data)
    assert record is not None
    assert all(not arm.passed and arm.ratio is None and arm.note.startswith("Not run") for arm in record.arms.values())


def test_a_reference_that_gets_nothing_right_is_no_reference() -> None:
    data = HandMade()
    found = judge(GATE, data, answers(data, 0), ("ref", answers(data, data.n)))
    assert not found.passed
    assert "answered nothing right" in found.note


def test_the_reference_is_the_fp32_arm_of_the_pair_or_else_of_the_model() -> None:
    three = experiment("bf16 int8 fp32")
    assert reference_of(three, "net-bf16", "net-int8") is three.arms[2]
    assert reference_of(experiment(), "net-int8", "net-fp32") == experiment().arms[0]
    assert reference_of(experiment("bf16 int8"), "net-bf16", "net-int8") is None


def test_the_reference_is_asked_once_even_when_it_is_an_arm_of_the_comparison() -> None:
    data, asked = HandMade(), []

    def infer(arm: str, images: Any) -> Any:
        asked.append(arm)
        return answers(data, 0)

    run_gate(experiment(), "net-fp32", "net-int8", infer, data)
    assert asked == ["net-fp32", "net-int8"]


def test_a_model_without_a_gate_is_not_asked() -> None:
    assert run_gate(experiment(gate=False), "net-fp32", "net-int8", lambda *_: pytest.fail("asked"), HandMade()) is None


def test_answers_of_another_length_are_a_load_error() -> None:
    data = HandMade()
    with pytest.raises(LoadError, match=r"answered 100 images with shape \[99, 10\]"):
        run_gate(experiment(), "net-fp32", "net-int8", lambda *_: answers(data, 0)[:99], data)


def test_the_record_survives_its_file(tmp_path: Any) -> None:
    data = HandMade()
    record = run_gate(experiment(), "net-fp32", "net-int8", lambda *_: answers(data, 0), data)
    assert record is not None
    record.write(tmp_path)
    assert AccuracyRecord.model_validate_json((tmp_path / "accuracy.json").read_text(encoding="utf-8")) == record


class Handler(BaseHTTPRequestHandler):
    """Answer as an Open Inference Protocol server whose model reads the class from an image's first byte."""

    protocol_version = "HTTP/1.1"
    sizes: list[int] = []
    datatype = "UINT8"

    def do_GET(self) -> None:
        tensors = {"inputs": [{"name": "image", "datatype": self.datatype, "shape": [-1, 4, 4, 3]}]}
        outputs = [{"name": name, "datatype": "FP32", "shape": [-1, CLASSES]} for name in ("other", "probabilities")]
        self._send(json.dumps({"name": "net", "platform": "", **tensors, "outputs": outputs}).encode(), {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        header = int(self.headers["Inference-Header-Content-Length"])
        shape = json.loads(body[:header])["inputs"][0]["shape"]
        images = np.frombuffer(body[header:], dtype=np.uint8).reshape(shape)
        self.sizes.append(len(images))
        raw = np.eye(CLASSES, dtype=np.float32)[images[:, 0, 0, 0]].tobytes()
        output = {
            "name": "probabilities",
            "datatype": "FP32",
            "shape": [len(images), CLASSES],
            "parameters": {"binary_data_size": len(raw)},
        }
        head = json.dumps({"model_name": "net", "outputs": [output]}).encode()
        self._send(head + raw, {"Inference-Header-Content-Length": str(len(head))})

    def _send(self, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def serve() -> Iterator[Callable[..., tuple[str, type[Handler]]]]:
    servers = []

    def start(**facts: Any) -> tuple[str, type[Handler]]:
        handler = type("Made", (Handler,), {"sizes": [], **facts})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}", handler

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_images_travel_in_requests_no_larger_than_the_arms_batch_and_come_back_in_order(serve: Any) -> None:
    url, handler = serve()
    data = HandMade(n=40)
    found = serving_path(url, experiment())("net-int8", data.images)
    assert found.argmax(axis=1).tolist() == data.labels.tolist()
    assert handler.sizes == [3] * 13 + [1]


def test_a_model_that_takes_no_image_is_a_load_error(serve: Any) -> None:
    url, _ = serve(datatype="FP32")
    with pytest.raises(LoadError, match=r"takes image \(FP32\)"):
        serving_path(url, experiment())("net-int8", HandMade().images)


def test_a_server_that_is_not_there_is_a_load_error() -> None:
    with pytest.raises(LoadError, match="cannot ask 'net-int8'"):
        serving_path("http://127.0.0.1:9", experiment(), timeout_s=2)("net-int8", HandMade().images)
