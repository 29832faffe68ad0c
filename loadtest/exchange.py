"""Follow one request over the wire, and turn what is known of it into its record."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bakeoff.metrics import Outcome
from loadtest.plan import RunSpec
from loadtest.records import Request

NEVER_SENT = "never sent: the load generator had no connection left before the timeout"
CLIENT_TIMEOUT = "no answer within the client's timeout"


@dataclass(slots=True)
class Exchange:
    """Collect what is known so far of one request; times are of the run's Clock, in nanoseconds."""

    seq: int
    due_ns: int
    sent_ns: int | None = None
    first_ns: int | None = None
    done_ns: int | None = None
    outcome: Outcome | None = None
    status: int | None = None
    parameters: Mapping[str, Any] | None = None
    size: int = 0
    """Bytes of the answer."""
    error: str | None = None

    def time_out(self, now_ns: int) -> None:
        """Note that the client gave up."""
        self.outcome = Outcome.TIMEOUT
        self.error = NEVER_SENT if self.sent_ns is None else CLIENT_TIMEOUT
        self.done_ns = now_ns

    def fail(self, error: str, now_ns: int) -> None:
        """Note that the connection failed."""
        self.outcome = Outcome.ERROR
        self.error = error
        self.done_ns = now_ns

    @property
    def latency_ms(self) -> float:
        """Return the time from the due time to the last byte, or to the moment the failure was known."""
        return 0.0 if self.done_ns is None else (self.done_ns - self.due_ns) / 1e6

    def record(self, spec: RunSpec, items: int) -> Request:
        """Return the row of this request; one that has not ended counts as timed out."""
        said = self.parameters or {}
        return Request(
            run=spec.run,
            arm=spec.arm,
            block=spec.block,
            seq=self.seq,
            due_ns=self.due_ns,
            sent_ns=self.sent_ns,
            first_ns=self.first_ns,
            done_ns=self.done_ns,
            outcome=self.outcome or Outcome.TIMEOUT,
            status=self.status,
            items=items,
            batch_size=_integer(said, "batch_size"),
            queue_ns=_integer(said, "queue_ns"),
            execution_ns=_integer(said, "execution_ns"),
            served_by=_text(said, "arm"),
            gpu_uuid=_text(said, "gpu_uuid"),
            error=self.error if self.outcome else NEVER_SENT,
        )


class Wire(Protocol):
    """Carry pre-encoded requests to one model of one server."""

    protocol: str
    """Name of the protocol on Locust's page."""

    def carry(self, exchange: Exchange, seq: int, deadline_ns: int) -> None:
        """Send the body that belongs to place `seq`, wait for the answer until the deadline, note what happened."""

    def close(self) -> None:
        """Close all connections."""


def http_outcome(status: int) -> Outcome:
    """Say how a request ended by its HTTP status."""
    if status in {429, 503}:
        return Outcome.REJECTED
    if status in {408, 504}:
        return Outcome.TIMEOUT
    if 200 <= status < 300:
        return Outcome.OK
    return Outcome.CLIENT_ERROR if 400 <= status < 500 else Outcome.ERROR


_GRPC_OUTCOMES = {
    0: Outcome.OK,
    1: Outcome.CANCELLED,
    3: Outcome.CLIENT_ERROR,
    4: Outcome.TIMEOUT,
    5: Outcome.CLIENT_ERROR,
    6: Outcome.CLIENT_ERROR,
    7: Outcome.CLIENT_ERROR,
    8: Outcome.REJECTED,
    9: Outcome.CLIENT_ERROR,
    11: Outcome.CLIENT_ERROR,
    14: Outcome.REJECTED,
    16: Outcome.CLIENT_ERROR,
}


def grpc_outcome(code: int) -> Outcome:
    """Say how a request ended by its gRPC status code; what names neither client nor load is a server error."""
    return _GRPC_OUTCOMES.get(code, Outcome.ERROR)


def json_part(body: bytes, header_length: str | None) -> Mapping[str, Any] | None:
    """Return the JSON part of an answer: its first `header_length` bytes, or all of it; None when that is no JSON object."""
    try:
        found = json.loads(body[: int(header_length)] if header_length else body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _integer(said: Mapping[str, Any], key: str) -> int | None:
    value = said.get(key)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(said: Mapping[str, Any], key: str) -> str | None:
    value = said.get(key)
    return value if isinstance(value, str) and value else None
