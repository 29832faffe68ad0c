"""Define every error bakeoff raises on purpose.

    BakeoffError
    ├── ExperimentError            the configuration file cannot be used as written
    │   └── UnsupportedPrecision   this hardware cannot run that precision
    ├── SourceError                weights or data are missing, damaged or of another kind
    ├── RequestError               the request is at fault; the server keeps serving
    │   ├── UnknownModel           no model or arm of that name is served here
    │   ├── RequestTooLarge        the body or the number of items is over the limit
    │   └── UnsupportedFeature     the protocol has it, this server does not
    ├── ServingError               the server is at fault or at its limit
    │   ├── NotReady               the arm is still warming up, draining or unhealthy
    │   ├── Overloaded             the arm's queue is full; carries retry_after_s
    │   ├── DeadlineExpired        the request's own timeout passed before it ran
    │   └── EngineError            the engine failed
    │       ├── NonFiniteOutput    the engine produced NaN or Inf
    │       └── OutOfMemory        the device had no room for the batch
    ├── DeviceError                a GPU or its driver could not be read
    ├── LoadError                  load could not be generated as planned
    └── RecordError                a run folder is incomplete or damaged

Domain errors know no HTTP and no gRPC: `serve.protocol.faults` maps them to codes.
"""


class BakeoffError(Exception):
    """Be the root of all errors raised on purpose."""


class ExperimentError(BakeoffError):
    """Say that a configuration file cannot be used as written."""


class UnsupportedPrecision(ExperimentError):
    """Say that an accelerator cannot run a precision, and why."""


class SourceError(BakeoffError):
    """Say that weights or data are missing, damaged or of another kind."""


class RequestError(BakeoffError):
    """Say what a request got wrong: what was expected and what was found."""


class UnknownModel(RequestError):
    """Say that no model, arm or version of that name is served here."""


class RequestTooLarge(RequestError):
    """Say that a body or an item count is over its limit."""


class UnsupportedFeature(RequestError):
    """Say that the protocol has a feature which this server does not."""


class ServingError(BakeoffError):
    """Be the root of failures that are the server's, not the request's."""


class NotReady(ServingError):
    """Say that an arm is warming up, draining or unhealthy."""


class Overloaded(ServingError):
    """Say that an arm's queue is full; `retry_after_s` tells when to come back."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlineExpired(ServingError):
    """Say that a request's own timeout passed before it ran."""


class EngineError(ServingError):
    """Say that an engine failed on a batch."""


class NonFiniteOutput(EngineError):
    """Say that an engine produced NaN or Inf for `samples` samples of a request."""

    def __init__(self, message: str, samples: int) -> None:
        super().__init__(message)
        self.samples = samples


class OutOfMemory(EngineError):
    """Say that the device had no room for a batch."""


class DeviceError(BakeoffError):
    """Say that a GPU or its driver could not be read."""


class LoadError(BakeoffError):
    """Say that load could not be generated as planned."""


class RecordError(BakeoffError):
    """Say that a run folder is incomplete or damaged."""
