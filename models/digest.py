"""Digest files, arrays and settings, so that what was measured can be told apart from what replaced it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_files(paths: Sequence[Path]) -> str:
    """Return one SHA-256 of several files' names and contents, whatever their order or folder."""
    return of_settings({path.name: of_file(path) for path in paths})


def of_array(array: NDArray[np.generic]) -> str:
    """Return the SHA-256 of an array's type, shape and elements."""
    head = f"{array.dtype.str}{array.shape}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).hexdigest()


def of_settings(settings: Mapping[str, object]) -> str:
    """Return the SHA-256 of settings as JSON with sorted keys."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
