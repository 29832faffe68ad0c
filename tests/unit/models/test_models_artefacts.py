from pathlib import Path

import pytest

from bakeoff.errors import SourceError
from models import artefacts
from models.servable import Signature, TensorSpec

SIGNATURE = Signature((TensorSpec("x", "INT64", (-1,), (0, 9), 512),), (TensorSpec("y", "FP32", (2,)),))
SETTINGS: dict[str, object] = {"weights": "abc", "samples": 64}


def writing(content: bytes) -> artefacts.Write:
    def write(target: Path) -> tuple[Signature, dict[str, str]]:
        target.write_bytes(content)
        return SIGNATURE, {"precision": "int8"}

    return write


def failing(target: Path) -> tuple[Signature, dict[str, str]]:
    target.write_bytes(b"half a mod")
    raise SourceError("calibration failed")


def files(cache: Path) -> set[str]:
    return {str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()}


def test_what_was_made_is_found_again_with_its_signature_and_facts(tmp_path: Path) -> None:
    assert artefacts.find(tmp_path, "net", SETTINGS) is None
    made = artefacts.make(tmp_path, "net", SETTINGS, writing(b"model"))
    found = artefacts.find(tmp_path, "net", SETTINGS)
    assert found == made
    assert found is not None
    assert found.signature == SIGNATURE
    assert found.facts == {"precision": "int8"}
    assert found.model.read_bytes() == b"model"


def test_other_settings_find_nothing(tmp_path: Path) -> None:
    artefacts.make(tmp_path, "net", SETTINGS, writing(b"model"))
    assert artefacts.find(tmp_path, "net", {**SETTINGS, "samples": 65}) is None
    assert artefacts.find(tmp_path, "other", SETTINGS) is None


def test_a_failure_leaves_what_was_there_and_nothing_half_made(tmp_path: Path) -> None:
    artefacts.make(tmp_path, "net", SETTINGS, writing(b"old"))
    before = files(tmp_path)
    with pytest.raises(SourceError, match="calibration failed"):
        artefacts.make(tmp_path, "net", SETTINGS, failing)
    assert files(tmp_path) == before
    found = artefacts.find(tmp_path, "net", SETTINGS)
    assert found is not None
    assert found.model.read_bytes() == b"old"


@pytest.mark.parametrize("name", ["model.onnx", "facts.json"])
def test_a_damaged_artefact_counts_as_absent_and_is_replaced(tmp_path: Path, name: str) -> None:
    made = artefacts.make(tmp_path, "net", SETTINGS, writing(b"model"))
    (made.model.parent / name).write_bytes(b"{")
    assert artefacts.find(tmp_path, "net", SETTINGS) is None
    artefacts.make(tmp_path, "net", SETTINGS, writing(b"again"))
    found = artefacts.find(tmp_path, "net", SETTINGS)
    assert found is not None
    assert found.model.read_bytes() == b"again"


def test_a_cache_that_cannot_be_written_is_a_source_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SourceError, match="permissions and free space"):
        artefacts.make(tmp_path / "file", "net", SETTINGS, writing(b"model"))
