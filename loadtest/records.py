"""Keep one row for each scheduled request, so that anyone can redo the figures."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from bakeoff.errors import RecordError
from bakeoff.metrics import Outcome

if TYPE_CHECKING:
    import pandas as pd

REQUESTS_FILE = "requests.parquet"
_NULLABLE_INTEGERS = ("sent_ns", "first_ns", "done_ns", "status", "batch_size", "queue_ns", "execution_ns")


@dataclass(frozen=True, slots=True)
class Request:
    """Record one scheduled request; what never happened is None.

    Times are nanoseconds on a clock that ran monotonically through the whole comparison and was set to Unix time at its start.
    """

    run: int
    arm: str
    """Arm the request was meant for."""
    block: int
    seq: int
    """Place in the run's schedule, from 0."""
    due_ns: int
    """When the request was due; latency counts from here."""
    sent_ns: int | None
    first_ns: int | None
    """First byte of the answer."""
    done_ns: int | None
    """Last byte of the answer, or the moment the failure was known."""
    outcome: Outcome
    status: int | None
    """HTTP status, or gRPC code."""
    items: int
    batch_size: int | None
    """Items of the batch the server ran it in, as the answer says."""
    queue_ns: int | None
    """Time in the arm's queue, as the answer says."""
    execution_ns: int | None
    """Time in the engine, as the answer says."""
    served_by: str | None
    """Arm that answered, as the answer says."""
    gpu_uuid: str | None
    """GPU that answered, as the answer says; None on a CPU."""
    error: str | None


COLUMNS = tuple(f.name for f in fields(Request))
_ROW = attrgetter(*COLUMNS)


def write(path: Path, requests: Iterable[Request]) -> None:
    """Write requests as Parquet, whole or not at all."""
    import pandas as pd

    frame = pd.DataFrame.from_records([_ROW(r) for r in requests], columns=list(COLUMNS))
    for column in _NULLABLE_INTEGERS:
        frame[column] = frame[column].astype("Int64")
    for column in ("arm", "outcome", "served_by", "gpu_uuid", "error"):
        frame[column] = frame[column].astype("string")
    partial = path.with_suffix(".partial")
    frame.to_parquet(partial, index=False)
    partial.replace(path)


def read(path: Path) -> "pd.DataFrame":
    """Read requests back; raise RecordError when the file is absent, damaged or lacks columns."""
    import pandas as pd

    try:
        frame = pd.read_parquet(path)
    except (OSError, ValueError) as e:
        raise RecordError(f"cannot read {path}: {e}") from e
    missing = [c for c in COLUMNS if c not in frame.columns]
    if missing:
        raise RecordError(f"{path} lacks the columns {', '.join(missing)}: it was not written by this version")
    return frame
