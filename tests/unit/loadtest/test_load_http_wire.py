"""Each way an HTTP server can answer, or fail to, becomes the right record."""

import json
import shutil
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bakeoff.errors import LoadError
from bakeoff.metrics import Outcome
from loadtest.generator import Generator
from loadtest.http_wire import message
from loadtest.nullmodel import ECHO
from loadtest.payload import HttpBody
from loadtest.plan import RunSpec

RELEASED = threading.Event()
PARAMETERS = {"arm": "arm-b", "gpu_uuid": "GPU-1", "batch_size": 4, "queue_ns": 5, "execution_ns": 6}


class Faulty(BaseHTTPRequestHandler):
    """Behave as the model's name says."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, dict[str, str], bytes]] = []

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path.endswith("unknown"):
            self.answer(404, b'{"error": "no such model"}')
        else:
            self.answer(200, ECHO.model_dump_json().encode())

    def do_POST(self):
        model = self.path.split("/")[3]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((model, dict(self.headers), body))
        kind, _, detail = model.partition("-")
        getattr(self, f"do_{kind}")(detail)

    def do_status(self, code):
        self.answer(int(code), json.dumps({"error": f"answer {code}"}).encode())

    def do_triton(self, _):
        described = json.dumps({"parameters": PARAMETERS}).encode()
        self.answer(200, described + bytes(200_000), {"Inference-Header-Content-Length": str(len(described))})

    def do_foreign(self, _):
        self.answer(200, b'{"model_name": "m", "outputs": []}')

    def do_html(self, _):
        self.answer(502, b"<html>bad gateway</html>")

    def do_chunked(self, _):
        self.answer(200, b"2\r\n{}\r\n0\r\n\r\n", {"Transfer-Encoding": "chunked", "Content-Length": None})

    def do_closing(self, _):
        self.answer(200, b"{}", {"Connection": "close"})

    def do_silent(self, _):
        RELEASED.wait(60)
        self.close_connection = True

    def do_hangup(self, _):
        self.close_connection = True

    def do_partial(self, _):
        self.answer(200, b"half", {"Content-Length": "8"})
        self.close_connection = True

    def do_garbage(self, _):
        self.wfile.write(b"\x16\x03\x01 nonsense\r\n\r\n")
        self.close_connection = True

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Faulty)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    RELEASED.set()
    server.shutdown()
    server.server_close()
    thread.join(30)


@pytest.fixture(scope="module")
def generator(server):
    with Generator(f"http://127.0.0.1:{server.server_port}", headers={"Authorization": "Bearer key"}) as generator:
        yield generator


def rows(generator, model, **changes):
    fields = {"rate_per_s": 30, "run_s": 0.3, "timeout_s": 5} | changes
    frame = generator.run(RunSpec(run=0, arm=model, block=0, position=0, seed=1, **fields)).frame
    assert len(frame) >= 3
    return frame


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (400, Outcome.CLIENT_ERROR),
        (408, Outcome.TIMEOUT),
        (429, Outcome.REJECTED),
        (500, Outcome.ERROR),
        (503, Outcome.REJECTED),
        (504, Outcome.TIMEOUT),
    ],
)
def test_a_refusal_keeps_its_status_and_reason(generator, status, outcome):
    frame = rows(generator, f"status-{status}")
    assert set(frame["outcome"]) == {outcome}
    assert set(frame["status"]) == {status}
    assert set(frame["error"]) == {f"answer {status}"}


def test_a_good_answer_keeps_what_the_server_says_of_itself(generator):
    frame = rows(generator, "triton-binary")
    assert set(frame["outcome"]) == {Outcome.OK}
    assert set(frame["served_by"]) == {"arm-b"}
    assert set(frame["gpu_uuid"]) == {"GPU-1"}
    assert frame[["batch_size", "queue_ns", "execution_ns"]].drop_duplicates().to_numpy().tolist() == [[4, 5, 6]]


def test_times_are_in_order(generator):
    frame = rows(generator, "triton-order")
    assert (frame["due_ns"] <= frame["sent_ns"]).all()
    assert (frame["sent_ns"] < frame["first_ns"]).all()
    assert (frame["first_ns"] <= frame["done_ns"]).all()


def test_a_foreign_server_leaves_the_parameters_absent(generator):
    frame = rows(generator, "foreign-server")
    assert set(frame["outcome"]) == {Outcome.OK}
    assert frame[["served_by", "gpu_uuid", "batch_size", "queue_ns", "execution_ns"]].isna().all(axis=None)


@pytest.mark.parametrize("model", ["chunked-body", "closing-after"])
def test_other_framings_are_good_answers(generator, model):
    assert set(rows(generator, model)["outcome"]) == {Outcome.OK}


def test_an_error_that_is_no_json_is_quoted(generator):
    assert set(rows(generator, "html-page")["error"]) == {"<html>bad gateway</html>"}


@pytest.mark.parametrize("model", ["hangup-now", "partial-body", "garbage-bytes"])
def test_a_broken_connection_is_an_error_without_status(generator, model):
    frame = rows(generator, model)
    assert set(frame["outcome"]) == {Outcome.ERROR}
    assert frame["status"].isna().all()
    assert frame["error"].str.len().min() > 10


def test_silence_times_out_after_the_clients_timeout_from_the_due_time(generator):
    frame = rows(generator, "silent-model", timeout_s=0.5)
    waited_s = (frame["done_ns"] - frame["due_ns"]) / 1e9
    assert set(frame["outcome"]) == {Outcome.TIMEOUT}
    assert waited_s.min() >= 0.499
    assert frame["sent_ns"].notna().all()
    assert frame["first_ns"].isna().all()


def test_what_arrives_is_what_was_encoded(generator):
    Faulty.seen.clear()
    rows(generator, "foreign-seen")
    _, headers, body = Faulty.seen[0]
    size = int(headers["Inference-Header-Content-Length"])
    described = json.loads(body[:size])
    assert headers["Authorization"] == "Bearer key"
    assert [i["shape"] for i in described["inputs"]] == [[1, 4]]
    assert len(body) - size == 16
    assert len({seen[2] for seen in Faulty.seen}) == len(Faulty.seen)


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """Make a certificate for localhost and trust it in child processes; return its file and its key's."""
    files = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
    return files


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_https_is_spoken_and_the_certificate_checked(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with ThreadingHTTPServer(("127.0.0.1", 0), Faulty) as server:
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            with Generator(f"https://localhost:{server.server_port}") as trusted:
                assert set(rows(trusted, "triton-tls")["outcome"]) == {Outcome.OK}
            with Generator(f"https://127.0.0.1:{server.server_port}") as other, pytest.raises(LoadError, match="certificate"):
                rows(other, "triton-tls")
        finally:
            server.shutdown()
            thread.join(30)


def test_a_model_that_is_not_served_is_refused_before_the_run(generator):
    with pytest.raises(LoadError, match="answered 404: no such model"):
        rows(generator, "unknown")


def test_grpc_without_an_address_is_refused(generator):
    with pytest.raises(LoadError, match="--grpc-url"):
        rows(generator, "triton-grpc", protocol="grpc")


def test_a_message_is_a_whole_http_request():
    head, _, body = message("http://host:8000/base/", "m 1", HttpBody(b"{}xx", 2), {"X-Key": "a"}).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == "POST /base/v2/models/m%201/infer HTTP/1.1"
    assert dict(line.split(": ") for line in lines) == {
        "Host": "host:8000",
        "Content-Type": "application/octet-stream",
        "Content-Length": "4",
        "Inference-Header-Content-Length": "2",
        "X-Key": "a",
    }
    assert body == b"{}xx"


def test_a_header_cannot_smuggle_another():
    with pytest.raises(LoadError, match="line break"):
        message("http://host", "m", HttpBody(b"{}", None), {"X-Key": "a\r\nHost: other"})
