"""Recompute a verdict from raw records and compare it with the one that was written."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bakeoff.errors import RecordError
from loadtest.analysis import analyse
from loadtest.folder import VERDICT_FILE

RELATIVE_TOLERANCE = 1e-9
ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """State one place where the written verdict and the raw records disagree."""

    place: str
    """Path within the verdict, such as `arms.x.latency_s.latency_p99`."""
    written: object
    recomputed: object

    def __str__(self) -> str:
        return f"{self.place}: verdict.json has {self.written!r}, the raw records give {self.recomputed!r}"


def verify(path: Path) -> list[Difference]:
    """Return every difference between a folder's `verdict.json` and its raw records; raise RecordError when either is unusable.

    Numbers agree within 1e-9 of each other, all else exactly; the digests of plan and raw files are part of the verdict.
    """
    written = _written(path / VERDICT_FILE)
    recomputed = json.loads(analyse(path).model_dump_json())
    return list(differences(written, recomputed))


def differences(written: object, recomputed: object, place: str = "") -> Iterator[Difference]:
    """Yield the places at which two JSON values differ."""
    if isinstance(written, dict) and isinstance(recomputed, dict):
        for key in sorted(written.keys() | recomputed.keys()):
            yield from differences(written.get(key, ABSENT), recomputed.get(key, ABSENT), f"{place}.{key}".lstrip("."))
    elif isinstance(written, list) and isinstance(recomputed, list) and len(written) == len(recomputed):
        for i, (one, other) in enumerate(zip(written, recomputed, strict=True)):
            yield from differences(one, other, f"{place}[{i}]")
    elif not _same(written, recomputed):
        yield Difference(place, written, recomputed)


def _same(one: object, other: object) -> bool:
    if _is_number(one) and _is_number(other):
        assert isinstance(one, int | float)
        assert isinstance(other, int | float)
        return math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE)
    return type(one) is type(other) and one == other


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _written(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise RecordError(f"cannot read {path}: {e}") from e
    except json.JSONDecodeError as e:
        raise RecordError(f"{path} is not JSON: {e}") from e
