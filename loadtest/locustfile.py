"""Walk an open-loop schedule under Locust's own command: `locust -f loadtest/locustfile.py --host URL --model NAME --rate 100`.

One user a process walks the schedule: start as many users as there are Locust workers. Latencies on Locust's page run
from the due time. The run ends by itself once the schedule is done; give `--run-time` only to end it earlier.
"""

import sys
from pathlib import Path
from typing import Any

# Locust has put this folder first on the path, where our modules would stand in for libraries of the same name.
_FOLDER = str(Path(__file__).resolve().parent)
_SHADOWING = [entry for entry in sys.path if entry and str(Path(entry).resolve()) == _FOLDER]
sys.path[:] = [entry for entry in sys.path if entry not in _SHADOWING]

from locust import User, events, task  # noqa: E402
from locust.exception import StopUser  # noqa: E402

from loadtest.clock import Clock  # noqa: E402
from loadtest.job import Job, Payload  # noqa: E402
from loadtest.plan import RunSpec  # noqa: E402
from loadtest.user import reporter  # noqa: E402
from loadtest.worker import Target, prepare, save, walk  # noqa: E402

# Locust removes the path's first entry again, which has to be its own.
sys.path[:0] = _SHADOWING


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]  # locust is not followed
def add_options(parser: Any) -> None:
    """Declare the options that describe the load."""
    parser.add_argument("--model", default="null", help="Model, or arm, to load", env_var="BAKEOFF_MODEL")
    parser.add_argument("--rate", type=float, default=10.0, help="Poisson arrivals a second", env_var="BAKEOFF_RATE")
    parser.add_argument("--length", type=float, default=30.0, help="Length of the schedule in seconds", env_var="BAKEOFF_LENGTH")
    parser.add_argument("--seed", type=int, default=1, help="Seed of arrivals and inputs", env_var="BAKEOFF_SEED")
    parser.add_argument("--give-up", type=float, default=10.0, help="Client timeout in seconds", env_var="BAKEOFF_GIVE_UP")
    parser.add_argument("--protocol", choices=["http", "grpc"], default="http", help="Wire protocol", env_var="BAKEOFF_PROTOCOL")
    parser.add_argument("--grpc-url", default=None, help="gRPC address, host:port", env_var="BAKEOFF_GRPC_URL")
    parser.add_argument("--items", type=int, default=1, help="Items a request", env_var="BAKEOFF_ITEMS")
    parser.add_argument("--inputs", default=None, help=".npz of inputs to send", env_var="BAKEOFF_INPUTS")
    parser.add_argument("--rows", default=None, help="Parquet file for the raw requests", env_var="BAKEOFF_ROWS")


class OpenLoopUser(User):  # type: ignore[misc]  # locust is not followed
    """Send this process's share of the schedule, then stop."""

    @task  # type: ignore[untyped-decorator]  # locust is not followed
    def walk(self) -> None:
        """Run the whole schedule as one task."""
        options, runner = self.environment.parsed_options, self.environment.runner
        job = job_of(options, worker=getattr(runner, "worker_index", 0), workers=max(1, options.num_users or 1))
        prepared = prepare(Target(self.environment.host, options.grpc_url), job)
        start_ns = Clock(job.clock_offset_ns).now_ns()
        report = reporter(self.environment.events.request, prepared.wire.protocol, job.spec.arm)
        exchanges = walk(prepared, start_ns, report)
        if options.rows:
            save(prepared, exchanges)
        if self.environment.runner.__class__.__name__ == "LocalRunner":
            runner.quit()
        raise StopUser


def job_of(options: Any, worker: int, workers: int) -> Job:
    """Return the job that Locust's parsed options describe."""
    spec = RunSpec(
        run=0,
        arm=options.model,
        block=0,
        position=0,
        seed=options.seed,
        rate_per_s=options.rate,
        run_s=options.length,
        timeout_s=options.give_up,
        protocol=options.protocol,
    )
    return Job(
        spec=spec,
        rows=Path(options.rows or "requests.parquet"),
        payload=Payload(inputs=options.inputs, items=options.items),
        clock_offset_ns=Clock.started_now().offset_ns,
        worker=worker,
        workers=workers,
    )
