"""Render results as Markdown: `python -m benchmarks.table` writes docs/benchmarks.md from the newest of each benchmark."""

from collections.abc import Iterable, Sequence
from statistics import median

from benchmarks import results
from benchmarks.results import QUIET_CORES, BatchingRun, Capacity, EchoRepetition, Overhead, Setting
from benchmarks.sides import ROOT, Side

PAGE = ROOT / "docs" / "benchmarks.md"
OVERHEAD_GOAL = 5.0
"""Times less CPU a request than Ray's default proxy."""
BATCHING_GOAL = 3.0
"""Times the rate of `@serve.batch`."""
NAMES = {
    Side.OURS: "bakeoff",
    Side.RAY_PYTHON: "Ray Serve, Python proxy (its default)",
    Side.RAY_HAPROXY: "Ray Serve, HAProxy",
}


def page(overhead: Overhead | None, batching: BatchingRun | None) -> str:
    """Return the page of all results."""
    lines = [
        "# Benchmarks",
        "",
        "bakeoff beside plain Ray Serve, hosted in turn on one machine, loaded by the same generator in the same run.",
        "Clients share the machine with the servers: read ratios, not absolutes. `make bench` measures again;",
        "`python -m benchmarks.table` renders this page from `benchmarks/results/`.",
    ]
    if overhead is not None:
        lines += ["", "## What serving itself costs", "", *overhead_lines(overhead), "", *_origin(overhead.setting)]
    if batching is not None:
        lines += ["", "## What batching is worth", "", *batching_lines(batching), "", *_origin(batching.setting)]
    return "\n".join(lines) + "\n"


def overhead_lines(result: Overhead) -> list[str]:
    """Return the overhead benchmark's ratios, its table and where the time goes."""
    clients = result.repetitions[0].clients
    return [
        f"An echo of {result.payload_bytes} bytes over HTTP, closed loop of {clients} clients. CPU time is user and system time",
        "of every process the server consists of; the net figure leaves out what the same processes use in an idle window of",
        "the same length. Latency is the median.",
        "",
        *overhead_ratios(result),
        "",
        *_table(
            (
                "Side",
                "CPU a request",
                "net of idle",
                "requests/s",
                "p50",
                "1 client: requests/s",
                "p50",
                "failures",
                "foreign cores",
            ),
            [_echo_row(r) for r in result.repetitions],
        ),
        "",
        "CPU milliseconds a request by process, idle use included:",
        "",
        *_table(("Side", "Processes"), [(NAMES[side], _roles(of(result, side))) for side in sides(result)]),
    ]


def overhead_ratios(result: Overhead) -> list[str]:
    """Return, for each peer, how many times bakeoff's CPU a request it uses; medians over the repetitions."""
    ours, lines = of(result, Side.OURS), []
    for side in sides(result)[1:]:
        peer = of(result, side)
        gross = median(r.cpu_s for r in peer) / median(r.cpu_s for r in ours)
        net = median(r.net_cpu_s for r in peer) / median(r.net_cpu_s for r in ours)
        goal = f" {_verdict(min(gross, net), OVERHEAD_GOAL)}" if side is Side.RAY_PYTHON else ""
        lines.append(f"* {NAMES[side]} uses **{gross:.1f} times** bakeoff's CPU a request ({net:.1f} times net of idle).{goal}")
    return lines


def batching_lines(result: BatchingRun) -> list[str]:
    """Return the batching benchmark's ratios and its table."""
    batch_ms, slo_ms = result.batch_s * 1e3, result.slo_s * 1e3
    return [
        f"A model that takes {batch_ms:.0f} ms a batch whatever its size, batches of at most {result.max_batch_size}, Poisson",
        "arrivals of 1 kB. The rate held is the highest at which the 99th percentile of latency stays under",
        f"{slo_ms:.0f} ms in a run with a fresh seed; latency counts from the time a request was due, and a failure",
        "counts as infinite. The search doubles, bisects to 5 %, and steps down by 5 % while a fresh seed fails.",
        "",
        *batching_ratios(result),
        "",
        *_table(
            ("Server", "Rate held", "p50", "p99", "Client's send lag p99", "foreign cores", "Probes", "Lowest rate not held"),
            [_capacity_row(c) for c in result.capacities],
        ),
    ]


def batching_ratios(result: BatchingRun) -> list[str]:
    """Return how many times each peer's rate bakeoff holds."""
    ours, *peers = result.capacities
    if ours.held_per_s is None:
        return ["* bakeoff held no rate that was tried."]
    return [_batching_ratio(ours.held_per_s, peer) for peer in peers]


def of(result: Overhead, side: Side) -> list[EchoRepetition]:
    """Return the repetitions of one side."""
    return [r for r in result.repetitions if r.side is side]


def sides(result: Overhead) -> list[Side]:
    """Return the sides that were measured, bakeoff first."""
    return list(dict.fromkeys([Side.OURS, *(r.side for r in result.repetitions)]))


def _batching_ratio(ours_per_s: float, peer: Capacity) -> str:
    if peer.held_per_s is None:
        return (
            f"* {peer.label} held none of the rates that were tried, the lowest {min(p.rate_per_s for p in peer.probes):.0f}/s."
        )
    ratio = ours_per_s / peer.held_per_s
    return f"* bakeoff holds **{ratio:.1f} times** the rate of {peer.label}. {_verdict(ratio, BATCHING_GOAL)}"


def _verdict(ratio: float, goal: float) -> str:
    return f"Goal of {goal:g} times: {'met' if ratio >= goal else 'not met'}."


def _echo_row(r: EchoRepetition) -> tuple[str, ...]:
    return (
        NAMES[r.side],
        _ms(r.cpu_s),
        _ms(r.net_cpu_s),
        f"{r.throughput_per_s:.0f}",
        _ms(r.p50_s),
        f"{r.single_throughput_per_s:.0f}",
        _ms(r.single_p50_s),
        str(r.failures),
        f"{r.foreign_cores:.2f}",
    )


def _capacity_row(capacity: Capacity) -> tuple[str, ...]:
    held = [p for p in capacity.probes if p.held and p.rate_per_s == capacity.held_per_s]
    missed = [p.rate_per_s for p in capacity.probes if not p.held]
    probes = str(len(capacity.probes))
    lowest_missed = f"{min(missed):.0f}/s" if missed else "none"
    if not held:
        return (capacity.label, "none", "", "", "", "", probes, lowest_missed)
    last = held[-1]
    return (
        capacity.label,
        f"{last.rate_per_s:.0f}/s",
        _ms(last.p50_s),
        _ms(last.p99_s),
        _ms(last.send_lag_p99_s),
        f"{last.foreign_cores:.2f}",
        probes,
        lowest_missed,
    )


def _roles(repetitions: Sequence[EchoRepetition]) -> str:
    roles = dict.fromkeys(role for r in repetitions for role in r.load_cpu_s)
    shares = {role: median(r.load_cpu_s.get(role, 0.0) / r.requests for r in repetitions) for role in roles}
    shown = sorted(((share, role) for role, share in shares.items() if share >= 5e-6), reverse=True)
    return ", ".join(f"{role} {share * 1e3:.2f}" for share, role in shown)


def _origin(setting: Setting) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in setting.versions.items())
    machine = f"{setting.cpu or 'an unnamed processor'}, {setting.cores} cores"
    return [
        f"Measured {setting.date[:10]} on {machine}, {setting.platform},",
        f"Python {setting.python}, {versions};",
        f"commit {setting.commit or 'unknown'}; `{setting.command}`.",
        "*Foreign cores* is what processes outside the benchmark used meanwhile;",
        f"above {QUIET_CORES:g} the machine was shared.",
    ]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]


def _ms(seconds: float | None) -> str:
    return "infinite" if seconds is None else f"{seconds * 1e3:.2f} ms"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(results.newest("overhead", Overhead), results.newest("batching", BatchingRun)))
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
