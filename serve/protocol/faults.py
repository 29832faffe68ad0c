"""Map every error to what the wire says: an HTTP status and a gRPC code; errors themselves know neither."""

from dataclasses import dataclass
from math import ceil

from bakeoff.errors import (
    BakeoffError,
    DeadlineExpired,
    EngineError,
    NotReady,
    Overloaded,
    RequestError,
    RequestTooLarge,
    ServingError,
    UnknownModel,
    UnsupportedFeature,
)
from bakeoff.metrics import Outcome


@dataclass(frozen=True)
class Fault:
    """Hold what one kind of error looks like on the wire; `grpc` is the name of a grpc.StatusCode."""

    http: int
    grpc: str
    outcome: Outcome


TABLE: dict[type[BakeoffError], Fault] = {
    UnknownModel: Fault(404, "NOT_FOUND", Outcome.CLIENT_ERROR),
    RequestTooLarge: Fault(413, "INVALID_ARGUMENT", Outcome.CLIENT_ERROR),
    UnsupportedFeature: Fault(501, "UNIMPLEMENTED", Outcome.CLIENT_ERROR),
    RequestError: Fault(400, "INVALID_ARGUMENT", Outcome.CLIENT_ERROR),
    NotReady: Fault(503, "UNAVAILABLE", Outcome.REJECTED),
    Overloaded: Fault(503, "UNAVAILABLE", Outcome.REJECTED),
    DeadlineExpired: Fault(504, "DEADLINE_EXCEEDED", Outcome.TIMEOUT),
    EngineError: Fault(500, "INTERNAL", Outcome.ERROR),
    ServingError: Fault(500, "INTERNAL", Outcome.ERROR),
}
_UNEXPECTED = Fault(500, "INTERNAL", Outcome.ERROR)


def fault_of(error: Exception) -> Fault:
    """Return the entry of the closest class of an error; what is not ours is an internal error."""
    for kind in type(error).__mro__:
        if kind in TABLE:
            return TABLE[kind]
    return _UNEXPECTED


def message_of(error: Exception) -> str:
    """Return what the client may read of an error."""
    return str(error) if isinstance(error, BakeoffError) else f"internal error: {type(error).__name__}"


def headers_of(error: Exception) -> dict[str, str]:
    """Return the extra headers of an error's answer."""
    return {"retry-after": str(ceil(error.retry_after_s))} if isinstance(error, Overloaded) else {}
