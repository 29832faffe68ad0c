"""Keep what is slow to make: one folder a set of settings, put in place whole by rename, checked when read.

<cache>/<family>/<digest of the settings>/model.onnx
                                          facts.json    signature, facts, settings, SHA-256 of model.onnx
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bakeoff.errors import SourceError
from models import digest
from models.servable import Signature, TensorSpec

MODEL_FILE = "model.onnx"
FACTS_FILE = "facts.json"


@dataclass(frozen=True)
class Artefact:
    """Point at a prepared model and say what it takes and what is known of it."""

    model: Path
    signature: Signature
    facts: dict[str, str]


Write = Callable[[Path], tuple[Signature, dict[str, str]]]
"""Write the model to the path it is given; return its signature and facts."""


def find(cache: Path, family: str, settings: Mapping[str, object]) -> Artefact | None:
    """Return what was made with these settings, None when it was never made or is damaged."""
    try:
        return _read(_folder(cache, family, settings))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def make(cache: Path, family: str, settings: Mapping[str, object], write: Write) -> Artefact:
    """Make an artefact and put it in place whole; when making fails nothing that was there changes."""
    folder = _folder(cache, family, settings)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder.parent) as partial:
            _fill(Path(partial) / "made", settings, write)
            _put(Path(partial) / "made", folder, Path(partial) / "old")
            return _read(folder)
    except OSError as e:
        raise SourceError(f"cannot write prepared models into {cache}: {e}. Check its permissions and free space.") from e


def _folder(cache: Path, family: str, settings: Mapping[str, object]) -> Path:
    return cache / family / digest.of_settings(settings)[:24]


def _fill(folder: Path, settings: Mapping[str, object], write: Write) -> None:
    folder.mkdir()
    signature, facts = write(folder / MODEL_FILE)
    record = {
        "signature": asdict(signature),
        "facts": facts,
        "settings": dict(settings),
        "sha256": digest.of_file(folder / MODEL_FILE),
    }
    (folder / FACTS_FILE).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _put(made: Path, folder: Path, old: Path) -> None:
    """Move a finished folder into place; one that another process put there meanwhile, or a damaged one, gives way."""
    if folder.exists():
        folder.rename(old)
    try:
        made.rename(folder)
    except OSError:
        if not folder.exists():
            raise
    shutil.rmtree(old, ignore_errors=True)


def _read(folder: Path) -> Artefact:
    record = json.loads((folder / FACTS_FILE).read_text(encoding="utf-8"))
    model = folder / MODEL_FILE
    if digest.of_file(model) != record["sha256"]:
        raise ValueError(f"{model} does not have the digest that {FACTS_FILE} names")
    signature = Signature(
        inputs=tuple(_tensor(spec) for spec in record["signature"]["inputs"]),
        outputs=tuple(_tensor(spec) for spec in record["signature"]["outputs"]),
    )
    return Artefact(model, signature, dict(record["facts"]))


def _tensor(spec: dict[str, object]) -> TensorSpec:
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in spec.items()}
    return TensorSpec(**fields)  # type: ignore[arg-type]
