"""Send requests when they are due, or as soon as the one before has ended; one greenlet a request in flight."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import gevent
from gevent.pool import Group

from bakeoff.metrics import Outcome
from loadtest.clock import Clock
from loadtest.exchange import Exchange, Wire
from loadtest.plan import RunSpec
from loadtest.schedule import poisson, shard, share
from loadtest.timer import KernelTimer

Report = Callable[[Exchange], None]
LEAD_NS = 20_000_000
"""How long before its due time a request's greenlet starts."""
DRAIN_GRACE_S = 1.0
RECONNECT_PAUSE_S = 0.01


@dataclass(frozen=True)
class Part:
    """Say which part of a run one of several workers has."""

    worker: int = 0
    workers: int = 1


class Sleeper:
    """Let one greenlet sleep until an exact time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer = KernelTimer()
        self._hub = gevent.get_hub()
        self._readable = self._hub.loop.io(self._timer.fd, 1)

    def until(self, time_ns: int) -> None:
        """Return at the time; at once when it has passed."""
        if self._clock.now_ns() >= time_ns:
            return
        self._timer.arm(self._clock.monotonic_ns(time_ns))
        self._hub.wait(self._readable)
        self._timer.clear()

    def close(self) -> None:
        """Give the timer back."""
        self._readable.close()
        self._timer.close()


class Sleepers:
    """Lend sleepers to many greenlets, and make no more than sleep at the same time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._idle: list[Sleeper] = []

    def until(self, time_ns: int) -> None:
        """Let the calling greenlet sleep until an exact time."""
        sleeper = self._idle.pop() if self._idle else Sleeper(self._clock)
        try:
            sleeper.until(time_ns)
        except BaseException:  # a killed greenlet leaves its timer armed
            sleeper.close()
            raise
        self._idle.append(sleeper)

    def close(self) -> None:
        """Give all timers back."""
        while self._idle:
            self._idle.pop().close()


def planned(spec: RunSpec, part: Part, start_ns: int) -> list[Exchange]:
    """Return one exchange for each request that a worker has to send in an open loop."""
    offsets = shard(poisson(spec.rate_per_s, spec.run_s, spec.seed), part.worker, part.workers)
    return [Exchange(part.worker + k * part.workers, start_ns + int(offset)) for k, offset in enumerate(offsets)]


def open_loop(wire: Wire, clock: Clock, spec: RunSpec, exchanges: list[Exchange], report: Report) -> None:
    """Send each exchange at its due time, whatever became of the others; return when all have ended or timed out.

    Each request's greenlet starts a little early and waits for the due time itself, so that no other work delays the send.
    """
    timeout_ns = int(spec.timeout_s * 1e9)
    in_flight = Group()
    sleepers = Sleepers(clock)

    def send(exchange: Exchange) -> None:
        sleepers.until(exchange.due_ns)
        _carry(wire, exchange, exchange.due_ns + timeout_ns, report)

    try:
        for exchange in exchanges:
            gevent.sleep(clock.until_s(exchange.due_ns - LEAD_NS))
            in_flight.spawn(send, exchange)
        in_flight.join(timeout=spec.timeout_s + DRAIN_GRACE_S)
    finally:
        in_flight.kill()
        sleepers.close()


def closed_loop(wire: Wire, clock: Clock, spec: RunSpec, part: Part, start_ns: int, report: Report) -> list[Exchange]:
    """Keep a worker's share of the concurrency in flight for the run's length; return what was sent."""
    exchanges: list[Exchange] = []
    places = count(part.worker, part.workers)
    clients = Group()
    try:
        gevent.sleep(clock.until_s(start_ns))
        for _ in range(share(spec.concurrency, part.worker, part.workers)):
            clients.spawn(_client, wire, _endless(clock, spec, places, start_ns, exchanges), spec, report)
        clients.join(timeout=spec.run_s + spec.timeout_s + DRAIN_GRACE_S)
    finally:
        clients.kill()
    return exchanges


def _endless(clock: Clock, spec: RunSpec, places: Iterator[int], start_ns: int, exchanges: list[Exchange]) -> Iterator[Exchange]:
    """Yield exchanges that are due at once, until the run's length has passed."""
    end_ns = start_ns + int(spec.run_s * 1e9)
    while (now_ns := clock.now_ns()) < end_ns:
        exchanges.append(exchange := Exchange(next(places), now_ns))
        yield exchange


def _client(wire: Wire, due: Iterator[Exchange], spec: RunSpec, report: Report) -> None:
    for exchange in due:
        _carry(wire, exchange, exchange.due_ns + int(spec.timeout_s * 1e9), report)
        if exchange.outcome is Outcome.ERROR and exchange.status is None:
            gevent.sleep(RECONNECT_PAUSE_S)


def _carry(wire: Wire, exchange: Exchange, deadline_ns: int, report: Report) -> None:
    wire.carry(exchange, exchange.seq, deadline_ns)
    report(exchange)
