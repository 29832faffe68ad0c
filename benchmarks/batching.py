"""Measure what batching is worth: the highest Poisson rate a 20 ms model holds within an SLO, ours beside `@serve.batch`.

`python -m benchmarks.batching` searches each contender's rate by open loops whose latency counts from the due time.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from benchmarks import results
from benchmarks.cputime import CpuReading, CpuSpan, wait_until_idle
from benchmarks.hosted import Hosted, end_cleanly_on_sigterm, generating, hosted
from benchmarks.peers.applications import BATCH_S, MAX_BATCH_SIZE
from benchmarks.results import BatchingRun, Capacity, Probe
from benchmarks.search import highest_rate_per_s, probe_s
from benchmarks.sides import CONTENDERS, Contender
from benchmarks.table import batching_lines
from loadtest.generator import Generator, RunResult
from loadtest.plan import RunSpec
from loadtest.timings import latencies_s, quantile

SLO_S = 0.15
START_PER_S = 64.0
"""First rate tried on every contender."""
TIMEOUT_S = 2.0
"""Time after which a request counts as failed; far beyond the SLO, so it decides nothing."""
WARM_UP_PER_S = 20.0
WARM_UP_S = 2.0


def search(contender: Contender, server: Hosted, generator: Generator, least_s: float, say: Callable[[str], None]) -> Capacity:
    """Find the highest rate a contender holds; every probe is kept."""
    probes: list[Probe] = []
    generator.run(open_loop(contender.model, WARM_UP_PER_S, WARM_UP_S, 0))

    def passes(rate_per_s: float, seed: int) -> bool:
        wait_until_idle(server.pid)
        spec = open_loop(contender.model, rate_per_s, probe_s(rate_per_s, least_s), seed)
        probes.append(probe(spec, server, generator))
        say(_line(contender, probes[-1]))
        return probes[-1].held

    held = highest_rate_per_s(passes, START_PER_S)
    return Capacity(label=contender.label, side=contender.side, model=contender.model, held_per_s=held, probes=tuple(probes))


def probe(spec: RunSpec, server: Hosted, generator: Generator) -> Probe:
    """Offer one rate and say whether the 99th percentile stayed within the SLO."""
    before = CpuReading.of(server.pid)
    result = generator.run(spec)
    used = CpuSpan.between(before, CpuReading.of(server.pid))
    return _probe(result, used.foreign_s / used.wall_s)


def _probe(result: RunResult, foreign_cores: float) -> Probe:
    latencies = latencies_s(result.frame)
    p99_s = quantile(latencies, 0.99)
    return Probe(
        rate_per_s=result.spec.rate_per_s,
        seed=result.spec.seed,
        run_s=result.spec.run_s,
        requests=len(result.frame),
        failures=len(result.frame) - result.good,
        p50_s=quantile(latencies, 0.5),
        p99_s=p99_s,
        send_lag_p99_s=result.send_lag_p99_s,
        generator_cpu_share=result.cpu_share,
        foreign_cores=foreign_cores,
        held=p99_s is not None and p99_s < SLO_S,
    )


def open_loop(model: str, rate_per_s: float, run_s: float, seed: int) -> RunSpec:
    """Return a run of Poisson arrivals."""
    return RunSpec(run=0, arm=model, block=0, position=0, seed=seed, rate_per_s=rate_per_s, run_s=run_s, timeout_s=TIMEOUT_S)


def measure(contenders: Sequence[Contender], least_s: float) -> list[Capacity]:
    """Search every contender's rate; those of one side share its host, and only one is loaded at a time."""
    say = partial(print, flush=True)
    found = []
    for side, group in groupby(contenders, key=lambda c: c.side):
        with hosted(side) as server, generating(server.url) as generator:
            found += [search(contender, server, generator, least_s, say) for contender in group]
    return found


def _line(contender: Contender, found: Probe) -> str:
    p99 = "infinite" if found.p99_s is None else f"{found.p99_s * 1e3:.0f} ms"
    return f"{contender.label}: {found.rate_per_s:.1f}/s, p99 {p99}: {'held' if found.held else 'not held'}"


def main() -> None:
    """Search every contender, write the result and print the table with the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batching", description=__doc__)
    parser.add_argument("--probe", type=float, default=8.0, help="seconds of one probe, longer at low rates")
    parser.add_argument("--dry", action="store_true", help="print, but write no result")
    given = parser.parse_args()
    end_cleanly_on_sigterm()
    started = results.setting()
    capacities = tuple(measure(CONTENDERS, given.probe))
    result = BatchingRun(setting=started, slo_s=SLO_S, batch_s=BATCH_S, max_batch_size=MAX_BATCH_SIZE, capacities=capacities)
    print("\n".join(batching_lines(result)))
    if not given.dry:
        print(f"written: {results.write('batching', result)}")


if __name__ == "__main__":
    main()
