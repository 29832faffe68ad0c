"""Translate what frameworks raise while a batch runs into bakeoff's engine errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from bakeoff.errors import EngineError, OutOfMemory

_MEMORY_TYPES = frozenset({"OutOfMemoryError", "MemoryError"})
_MEMORY_WORDS = ("out of memory", "not enough memory", "bad_alloc", "Failed to allocate memory")
_FRAMEWORKS = ("torch", "onnxruntime")
_FAILURES = (RuntimeError, ValueError, TypeError, IndexError, KeyError, ArithmeticError, MemoryError, NotImplementedError)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise OutOfMemory or EngineError for what the block raises; `what` says what was tried.

    Errors raised by bakeoff itself pass through.
    """
    try:
        yield
    except Exception as e:
        if not _is_foreign(e):
            raise
        raise error_for(e, what) from e


def error_for(error: Exception, what: str) -> EngineError:
    """Return the engine error that a framework's error means."""
    first = _first_cause(error)
    reason = str(first).splitlines()[0] if str(first) else type(first).__name__
    if type(error).__name__ in _MEMORY_TYPES or any(word in str(error) for word in _MEMORY_WORDS):
        return OutOfMemory(f"{what}: no memory for it ({reason}). Lower max_batch_size or use a device with more memory.")
    return EngineError(f"{what} failed: {type(first).__name__}: {reason}")


def _is_foreign(error: Exception) -> bool:
    return isinstance(error, _FAILURES) or type(error).__module__.partition(".")[0] in _FRAMEWORKS


def _first_cause(error: BaseException) -> BaseException:
    """Return where a chain of errors began: frameworks wrap their own errors in general advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error
