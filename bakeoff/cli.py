"""Be the command `bakeoff`: each subcommand imports its package when called, so that none pays for another."""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from bakeoff import experiment as experiments
from bakeoff.errors import BakeoffError, ExperimentError
from bakeoff.progress import TerminalProgress
from bakeoff.served import served

if TYPE_CHECKING:
    from loadtest.comparison import Server

REFUSED = 2
WATCH_S = 1.0
INVALID = 3
DEMO = Path("examples") / "cpu.yaml"

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Serve models on candidate GPUs side by side and say with evidence which to buy.",
)

ExperimentFile = Annotated[Path, typer.Argument(help="Experiment file (YAML).", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def main() -> None:
    """Run the command; errors of ours become one line and status 2."""
    try:
        app(standalone_mode=True)
    except BakeoffError as e:
        print(f"bakeoff: {e}", file=sys.stderr)
        sys.exit(REFUSED)


@app.command()
def check(path: ExperimentFile, as_json: AsJson = False) -> None:
    """Check an experiment file and print its arms."""
    from serve.preparation import check as check_arms

    experiment = experiments.load(path)
    check_arms(experiment)
    if as_json:
        print(experiment.model_dump_json())
        return
    for arm in experiment.arms:
        share = experiment.weights_of(arm.model)[arm.id]
        print(f"{arm.id}: {arm.model} {arm.precision} on {arm.pool}, {share:.0%} of its model's traffic")


@app.command()
def schema() -> None:
    """Print the JSON schema of the experiment file."""
    print(json.dumps(experiments.Experiment.model_json_schema(), indent=2))


@app.command()
def serve(
    path: ExperimentFile,
    http_port: Annotated[int, typer.Option(help="HTTP port of the front door; 0 takes a free one.")] = 8080,
    grpc_port: Annotated[int, typer.Option(help="gRPC port of the front door; 0 takes a free one.")] = 8081,
    metrics_port: Annotated[int, typer.Option(help="Port of the exporter; 0 takes a free one.")] = 8082,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    cache: Annotated[
        Path | None, typer.Option(help="Folder of prepared models.", envvar="BAKEOFF_CACHE", show_default="~/.cache/bakeoff")
    ] = None,
) -> None:
    """Serve an experiment in the foreground until SIGTERM or Ctrl-C; one line starting with `ready` tells the addresses."""
    from serve.host import DEFAULT_CACHE, Options, hosting

    experiment = experiments.load(path)
    options = Options(
        http_port=http_port, grpc_port=grpc_port, metrics_port=metrics_port, host=host, cache=cache or DEFAULT_CACHE
    )
    with _stopping(), hosting(experiment, options, _say) as addresses:
        print(addresses.ready_line(), flush=True)
        while True:
            time.sleep(WATCH_S)
            addresses.check()


@app.command()
def load(
    url: Annotated[str, typer.Argument(help="Base URL of any Open Inference Protocol server.", show_default=False)],
    model: Annotated[str, typer.Option(help="Model or arm to load.", show_default=False)],
    rate: Annotated[float | None, typer.Option(help="Open loop: mean arrivals a second.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Closed loop: requests kept in flight.")] = None,
    duration: Annotated[float, typer.Option(help="Seconds of load.")] = 30.0,
    protocol: Annotated[Literal["http", "grpc"], typer.Option(help="Wire protocol.")] = "http",
    grpc_url: Annotated[str | None, typer.Option(help="host:port of the gRPC server.")] = None,
    inputs: Annotated[Path | None, typer.Option(help="An .npz with one array an input; random without it.")] = None,
    items: Annotated[int, typer.Option(help="Samples in one request.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of arrivals and random inputs.")] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds after which the client gives up.")] = 10.0,
    slo: Annotated[float | None, typer.Option(help="Latency target in seconds, for goodput.")] = None,
    workers: Annotated[int, typer.Option(help="Generator processes.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for raw requests and summary.", show_default="runs/load-<time>")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put one load on one model, keep the raw requests and sum them up."""
    from loadtest.job import Payload
    from loadtest.load import LoadOptions, run_load

    options = LoadOptions(
        url=url,
        model=model,
        rate_per_s=rate,
        concurrency=concurrency,
        duration_s=duration,
        timeout_s=timeout,
        seed=seed,
        protocol=protocol,
        grpc_url=grpc_url,
        workers=workers,
        payload=Payload(inputs=inputs, items=items),
        slo_s=slo,
    )
    folder = out or Path("runs") / f"load-{_stamp()}"
    summary = run_load(options, folder)
    print(summary.model_dump_json(indent=None if as_json else 2))


@app.command()
def compare(
    path: ExperimentFile,
    a: Annotated[str, typer.Option(help="Arm A, the baseline.", show_default=False)],
    b: Annotated[str, typer.Option(help="Arm B, the candidate.", show_default=False)],
    depth: Annotated[Literal["smoke", "standard"], typer.Option(help="How much evidence to gather.")] = "smoke",
    out: Annotated[Path | None, typer.Option(help="Run folder.", show_default="runs/<name>-<time>")] = None,
    url: Annotated[str | None, typer.Option(help="Use this running server instead of starting one.")] = None,
    grpc_url: Annotated[str | None, typer.Option(help="host:port of the running server's gRPC door.")] = None,
    metrics_url: Annotated[str | None, typer.Option(help="Metrics URL of the running server's exporter.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two arms of one model and say which is better, by how much and how sure that is."""
    _compare(path, a, b, depth, out, (url, grpc_url, metrics_url), as_json)


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="Run folder.", show_default="runs/<name>-<time>")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare FP32 with INT8 of a real image classifier on this machine's CPU: no GPU needed, a few minutes."""
    path = Path(__file__).resolve().parent.parent / DEMO
    first, second = experiments.load(path).arms[:2]
    _compare(path, first.id, second.id, "smoke", out, (None, None, None), as_json)


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="Run folder.", show_default=False)], as_json: AsJson = False) -> None:
    """Compute verdict and report of a run folder anew from its raw records."""
    from loadtest.analysis import write_verdict
    from loadtest.report import write_report
    from loadtest.terminal import print_verdict

    verdict = write_verdict(folder)
    page = write_report(folder)
    if as_json:
        print(verdict.model_dump_json())
        return
    print_verdict(Console(), verdict)
    print(f"report: {page}")


@app.command()
def verify(folder: Annotated[Path, typer.Argument(help="Run folder.", show_default=False)], as_json: AsJson = False) -> None:
    """Recompute a verdict from the raw records and compare it with the written one; status 3 when they differ."""
    from loadtest.verify import verify as differences_of

    differences = differences_of(folder)
    if as_json:
        print(json.dumps([d.__dict__ for d in differences]))
    elif differences:
        for difference in differences:
            print(difference)
    else:
        print(f"{folder}: every figure of the verdict follows from the raw records")
    if differences:
        raise typer.Exit(INVALID)


@app.command()
def exporter(
    arguments: Annotated[list[str] | None, typer.Argument(help="Options of the exporter; `-- --help` lists them.")] = None,
) -> None:
    """Export this node's GPU telemetry, and its replicas' request series, to Prometheus."""
    from monitoring.exporter import main as export

    raise typer.Exit(export(arguments or []))


def _compare(
    path: Path, a: str, b: str, depth: str, out: Path | None, urls: tuple[str | None, str | None, str | None], as_json: bool
) -> None:
    from loadtest.comparison import Comparison, prepare_folder
    from loadtest.comparison import compare as run_comparison
    from loadtest.plan import Depth
    from loadtest.terminal import print_verdict

    experiment = experiments.load(path)
    folder = out or Path("runs") / f"{experiment.name}-{_stamp()}"
    comparison = Comparison(experiment, a, b, Depth(depth), folder)
    comparison.plan()
    prepare_folder(folder)
    console = Console(stderr=as_json)
    with TerminalProgress(console) as progress, _server(path, urls, progress.say) as server:
        verdict = run_comparison(comparison, server, progress)
    if as_json:
        print(verdict.model_dump_json())
        return
    print_verdict(console, verdict)
    console.print(f"report: {folder / 'report.html'}\nverify: bakeoff verify {folder}", highlight=False)


@contextmanager
def _server(path: Path, urls: tuple[str | None, str | None, str | None], say: Callable[[str], None]) -> "Iterator[Server]":
    from loadtest.comparison import Server

    url, grpc_url, metrics_url = urls
    if url is None:
        with served(path, say) as addresses:
            yield Server(addresses["http"], addresses["grpc"], addresses["metrics"])
    elif metrics_url is None:
        raise ExperimentError("--url needs --metrics-url beside it: telemetry is part of the evidence")
    else:
        yield Server(url, grpc_url, metrics_url)


@contextmanager
def _stopping() -> Iterator[None]:
    """Turn SIGTERM and SIGINT into an orderly end of the context."""

    def stop(*_: object) -> None:
        raise _Stopped

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with suppress(_Stopped):
        yield


class _Stopped(Exception):
    """Say that the operator ended the server."""


def _say(line: str) -> None:
    print(line, flush=True)


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
