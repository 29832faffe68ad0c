"""Measure what serving itself costs: CPU time of all server processes for one echo request of 1 kB.

`python -m benchmarks.overhead` hosts each side in turn, there and back, so that drift of the machine meets both alike.
"""

import argparse
import time

from benchmarks import results
from benchmarks.cputime import CpuReading, CpuSpan
from benchmarks.hosted import VALUES, Hosted, end_cleanly_on_sigterm, generating, hosted
from benchmarks.results import EchoRepetition, Overhead
from benchmarks.sides import ECHO, Side
from benchmarks.table import overhead_lines
from loadtest.generator import RunResult
from loadtest.plan import RunSpec
from loadtest.timings import latencies_s, quantile

ORDER = (Side.OURS, Side.RAY_PYTHON, Side.RAY_HAPROXY, Side.RAY_PYTHON, Side.OURS)
TIMEOUT_S = 10.0
WARM_UP_S = 2.0


def measure(side: Side, clients: int, window_s: float, single_s: float) -> EchoRepetition:
    """Host a side and take one repetition: warm-up, one client, an idle window, a loaded window of the same length."""
    with hosted(side) as server, generating(server.url) as generator:
        model = ECHO[side]
        generator.run(closed_loop(model, clients, WARM_UP_S))
        single = generator.run(closed_loop(model, 1, single_s))
        idle = _idle(server, window_s)
        before = CpuReading.of(server.pid)
        loaded = generator.run(closed_loop(model, clients, window_s))
        used = CpuSpan.between(before, CpuReading.of(server.pid))
    return _repetition(side, clients, single, idle, loaded, used)


def closed_loop(model: str, clients: int, run_s: float) -> RunSpec:
    """Return a run that keeps so many requests in flight."""
    return RunSpec(
        run=0,
        arm=model,
        block=0,
        position=0,
        seed=1,
        kind="closed",
        rate_per_s=1.0,
        concurrency=clients,
        run_s=run_s,
        timeout_s=TIMEOUT_S,
    )


def _idle(server: Hosted, window_s: float) -> CpuSpan:
    before = CpuReading.of(server.pid)
    time.sleep(window_s)
    return CpuSpan.between(before, CpuReading.of(server.pid))


def _repetition(side: Side, clients: int, single: RunResult, idle: CpuSpan, loaded: RunResult, used: CpuSpan) -> EchoRepetition:
    return EchoRepetition(
        side=side,
        clients=clients,
        requests=loaded.good,
        failures=len(loaded.frame) - loaded.good,
        load_s=used.wall_s,
        load_cpu_s=used.by_role,
        idle_s=idle.wall_s,
        idle_cpu_s=idle.by_role,
        throughput_per_s=loaded.good / loaded.spec.run_s,
        p50_s=quantile(latencies_s(loaded.frame), 0.5),
        single_throughput_per_s=single.good / single.spec.run_s,
        single_p50_s=quantile(latencies_s(single.frame), 0.5),
        foreign_cores=used.foreign_s / used.wall_s,
    )


def main() -> None:
    """Measure every side, write the result and print the table with the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--clients", type=int, default=8, help="requests kept in flight")
    parser.add_argument("--window", type=float, default=20.0, help="seconds of the idle and of the loaded window")
    parser.add_argument("--single", type=float, default=5.0, help="seconds with one client")
    parser.add_argument("--dry", action="store_true", help="print, but write no result")
    given = parser.parse_args()
    end_cleanly_on_sigterm()
    started = results.setting()
    repetitions = []
    for side in ORDER:
        print(f"{side}: measuring", flush=True)
        repetitions.append(measure(side, given.clients, given.window, given.single))
    result = Overhead(setting=started, payload_bytes=VALUES * 4, repetitions=tuple(repetitions))
    print("\n".join(overhead_lines(result)))
    if not given.dry:
        print(f"written: {results.write('overhead', result)}")


if __name__ == "__main__":
    main()
