"""Each way a gRPC server can answer becomes the right record, and a slow one holds nothing back."""

import asyncio
import threading

import grpc
import pytest

from bakeoff.errors import LoadError
from bakeoff.metrics import Outcome
from loadtest.generator import Generator
from loadtest.grpc_wire import METHOD
from loadtest.nullserver import NullServer
from loadtest.plan import RunSpec


def spec(**changes):
    fields = {"arm": "m", "rate_per_s": 60, "run_s": 0.5, "timeout_s": 5, "protocol": "grpc"} | changes
    return RunSpec(run=0, block=0, position=0, seed=1, **fields)


async def refuse(request, context):
    """Abort with the code that the model's name ends in."""
    name = request[2 : 2 + request[1]].decode()
    await context.abort(grpc.StatusCode[name.upper()], f"because {name}")


@pytest.fixture(scope="module")
def refusing():
    """Serve gRPC that refuses everything, from a thread; yield its port."""
    started, loop = threading.Event(), asyncio.new_event_loop()
    service, method = METHOD.strip("/").split("/")
    found: dict = {}

    async def start():
        server = grpc.aio.server()
        handlers = {method: grpc.unary_unary_rpc_method_handler(refuse)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        found.update(server=server, port=server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        started.set()

    loop.create_task(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    assert started.wait(30)
    yield f"127.0.0.1:{found['port']}"
    asyncio.run_coroutine_threadsafe(found["server"].stop(None), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


@pytest.fixture(scope="module")
def null():
    with NullServer(grpc=True) as server:
        yield server


@pytest.fixture(scope="module")
def refused(null, refusing):
    with Generator(null.base_url, refusing) as generator:
        yield generator


def test_a_good_answer_is_recorded_with_the_servers_parameters(null):
    with Generator(null.base_url, null.grpc_url) as generator:
        frame = generator.run(spec(arm="arm-x")).frame
    assert set(frame["outcome"]) == {Outcome.OK}
    assert set(frame["status"]) == {0}
    assert set(frame["served_by"]) == {"arm-x"}
    assert set(frame["batch_size"]) == {1}
    assert frame["first_ns"].isna().all()
    assert (frame["sent_ns"] < frame["done_ns"]).all()


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("invalid_argument", Outcome.CLIENT_ERROR),
        ("unavailable", Outcome.REJECTED),
        ("resource_exhausted", Outcome.REJECTED),
        ("internal", Outcome.ERROR),
        ("deadline_exceeded", Outcome.TIMEOUT),
    ],
)
def test_a_refusal_keeps_its_code_and_reason(refused, code, outcome):
    frame = refused.run(spec(arm=code)).frame
    assert set(frame["outcome"]) == {outcome}
    assert set(frame["status"]) == {grpc.StatusCode[code.upper()].value[0]}
    assert set(frame["error"]) == {f"because {code}"}


def test_an_unreachable_server_is_refused_before_the_run(null, monkeypatch):
    with Generator(null.base_url, "127.0.0.1:9") as generator, pytest.raises(LoadError, match="does not answer gRPC"):
        generator.run(spec())


def test_a_stall_holds_no_request_back():
    """gevent's gRPC gives each blocking call one of ten threads: far more than ten have to be in flight here."""
    with (
        NullServer(stall_after_s=0.2, stall_s=1.0, grpc=True) as server,
        Generator(server.base_url, server.grpc_url) as generator,
    ):
        result = generator.run(spec(rate_per_s=100, run_s=1.5))
    frame = result.frame
    held = frame[(frame["done_ns"] - frame["due_ns"]) > 200_000_000]
    assert set(frame["outcome"]) == {Outcome.OK}
    assert len(held) > 50
    assert ((held["sent_ns"] - held["due_ns"]) < 100_000_000).all()


def test_a_silent_server_times_out():
    with NullServer(stall_after_s=0, stall_s=3600, grpc=True) as server, Generator(server.base_url, server.grpc_url) as generator:
        frame = generator.run(spec(timeout_s=0.5)).frame
    assert set(frame["outcome"]) == {Outcome.TIMEOUT}
    assert ((frame["done_ns"] - frame["due_ns"]) / 1e9).min() >= 0.499
