"""Be one generator process: take jobs line by line, run each under Locust, write the rows after the drain."""

import argparse
import gc
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from bakeoff.errors import BakeoffError, LoadError
from loadtest.job import Job, Reply, Start

if TYPE_CHECKING:
    from loadtest.exchange import Exchange, Wire
    from loadtest.metadata import ModelMetadata
    from loadtest.pacing import Report

DRAIN_MARGIN_S = 30.0


@dataclass(frozen=True)
class Target:
    """Say where the server is."""

    base_url: str
    grpc_url: str | None = None


@dataclass(frozen=True)
class Prepared:
    """Hold a job whose bodies are encoded and whose connections are ready."""

    job: Job
    wire: "Wire"


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve jobs from standard input until it ends."""
    import locust  # noqa: F401 (patches sockets; has to come before anything that opens one)

    replies = _claim_stdout()
    target = _target(arguments)
    _raise_file_limit()
    for line in iter(sys.stdin.readline, ""):
        _serve(target, line, replies)


def prepare(target: Target, job: Job) -> Prepared:
    """Encode a job's bodies and open its connections; raise LoadError when the server or the inputs do not fit."""
    from loadtest import payload
    from loadtest.metadata import fetch_metadata

    metadata = fetch_metadata(target.base_url, job.spec.arm, job.headers)
    what = job.payload
    if what.inputs is None:
        pool = payload.random_arrays(metadata, what.items, what.distinct, job.spec.seed)
    else:
        pool = payload.stored_arrays(what.inputs, metadata, what.items, what.distinct, job.spec.seed)
    return Prepared(job, connect(target, job, metadata, pool))


def connect(target: Target, job: Job, metadata: "ModelMetadata", pool: list[Any]) -> "Wire":
    """Return the wire of a job's protocol."""
    from loadtest import payload
    from loadtest.clock import Clock
    from loadtest.grpc_wire import GrpcWire
    from loadtest.http_wire import HttpWire

    clock = Clock(job.clock_offset_ns)
    if job.spec.protocol == "http":
        return HttpWire(target.base_url, job.spec.arm, payload.encode_http(metadata, pool), clock, job.headers)
    if target.grpc_url is None:
        raise LoadError("the run uses gRPC, but no gRPC address was given: pass --grpc-url host:port")
    named = metadata.model_copy(update={"name": job.spec.arm})
    return GrpcWire(target.grpc_url, payload.encode_grpc(named, pool), clock, job.headers)


def walk(prepared: Prepared, start_ns: int, report: "Report") -> "list[Exchange]":
    """Send a job's part of the run; return one exchange for each request."""
    from loadtest.clock import Clock
    from loadtest.pacing import Part, closed_loop, open_loop, planned

    job = prepared.job
    clock, part = Clock(job.clock_offset_ns), Part(job.worker, job.workers)
    if job.spec.kind == "closed":
        return closed_loop(prepared.wire, clock, job.spec, part, start_ns, report)
    exchanges = planned(job.spec, part, start_ns)
    open_loop(prepared.wire, clock, job.spec, exchanges, report)
    return exchanges


def drive(prepared: Prepared, start_ns: int) -> "list[Exchange]":
    """Run a prepared job as a Locust test of one user."""
    from gevent.event import AsyncResult
    from locust.env import Environment

    from loadtest.user import schedule_user

    spec, finished = prepared.job.spec, AsyncResult()
    user = schedule_user(lambda report: walk(prepared, start_ns, report), prepared.wire.protocol, spec.arm, finished)
    runner = Environment(user_classes=[user]).create_local_runner()
    try:
        runner.start(1, spawn_rate=1)
        exchanges: list[Exchange] = finished.get(timeout=spec.run_s + spec.timeout_s + DRAIN_MARGIN_S)
        return exchanges
    finally:
        runner.quit()


def save(prepared: Prepared, exchanges: "list[Exchange]") -> None:
    """Write a job's rows."""
    from loadtest.records import write

    job = prepared.job
    write(job.rows, (exchange.record(job.spec, job.payload.items) for exchange in exchanges))


def _serve(target: Target, line: str, replies: TextIO) -> None:
    try:
        prepared = prepare(target, Job.model_validate_json(line))
        _reply(replies, Reply(ready=True))
        start = Start.model_validate_json(sys.stdin.readline() or "{}")
        _reply(replies, _run(prepared, start.start_ns))
    except (BakeoffError, ValueError) as e:
        _reply(replies, Reply(error=str(e)))


def _run(prepared: Prepared, start_ns: int) -> Reply:
    cpu_s, wall_s = time.process_time(), time.monotonic()
    try:
        with _undisturbed():
            exchanges = drive(prepared, start_ns)
    finally:
        prepared.wire.close()
    cpu_share = (time.process_time() - cpu_s) / (time.monotonic() - wall_s)
    save(prepared, exchanges)
    return _figures(prepared.job, exchanges, start_ns, cpu_share)


def _figures(job: Job, exchanges: "list[Exchange]", start_ns: int, cpu_share: float) -> Reply:
    from bakeoff.metrics import Outcome
    from loadtest.timings import achieved_rate_per_s, quantile, send_lags_s

    sent = [e.sent_ns for e in exchanges]
    lags_ms = send_lags_s([e.due_ns for e in exchanges], sent if job.spec.kind == "open" else [None] * len(sent)) * 1e3
    return Reply(
        requests=len(exchanges),
        outcomes=Counter(e.outcome or Outcome.TIMEOUT for e in exchanges),
        send_lag_p50_ms=quantile(lags_ms, 0.5),
        send_lag_p99_ms=quantile(lags_ms, 0.99),
        achieved_rate_per_s=achieved_rate_per_s(sent, start_ns, job.spec.run_s),
        cpu_share=cpu_share,
    )


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keep the garbage collector out of a run: requests leave no cycles behind, and a full collection stalls all of them."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _claim_stdout() -> TextIO:
    """Keep standard output for replies; whatever else prints goes to standard error."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return replies


def _reply(replies: TextIO, reply: Reply) -> None:
    replies.write(reply.model_dump_json() + "\n")


def _raise_file_limit() -> None:
    """Allow as many sockets as the system lets this process have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _target(arguments: Sequence[str] | None) -> Target:
    parser = argparse.ArgumentParser(prog="python -m loadtest.generator", description="Generate load, one job a line.")
    parser.add_argument("--base-url", required=True, help="HTTP address, http://host:port")
    parser.add_argument("--grpc-url", help="gRPC address, host:port")
    found = parser.parse_args(arguments)
    return Target(found.base_url, found.grpc_url)
